#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "data/io/hdf5_handle.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/hdf5_element.hpp"
#include "train/checkpoint/hdf5_image.hpp"

namespace heed::train {
namespace hdf5 {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored as they are in memory");

using data::hdf5_checked, data::hdf5_properties, data::Hdf5Handle;

// HDF5 File Format Specification, superblock version 3.
constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr int64_t kSuperblockBytes = 48;
constexpr int64_t kEndAt = 28;  // offset of the end-of-file address, which counts from the first byte of the file

// HDF5 makes a file in memory whose metadata are in one block at its start. The elements follow: HDF5 gives them their
// places, but never writes them, and so the memory of the file ends where they begin.
class LayoutWriter {
 public:
  // metadata_bytes: length of the block, at least that of all metadata. 0: leaves the elements out, to learn that
  // length.
  explicit LayoutWriter(int64_t metadata_bytes)
      : places_elements_(metadata_bytes > 0),
        file_(create(image_, metadata_bytes)),
        group_properties_(hdf5_properties(H5P_GROUP_CREATE)),
        dataset_properties_(hdf5_properties(H5P_DATASET_CREATE)) {
    hdf5_checked(H5Pset_obj_track_times(group_properties_, false), "leave out timestamps");
    hdf5_checked(H5Pset_obj_track_times(dataset_properties_, false), "leave out timestamps");
    hdf5_checked(H5Pset_fill_time(dataset_properties_, H5D_FILL_TIME_NEVER), "leave out fill values");
    if (!places_elements_) return;
    hdf5_checked(H5Pset_alloc_time(dataset_properties_, H5D_ALLOC_TIME_EARLY), "give elements their places");
  }

  void add_group(const std::string& path) {
    if (!groups_.insert(path).second) return;
    const Hdf5Handle group(hdf5_checked(H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, group_properties_, H5P_DEFAULT),
                                        "make group " + path));
  }

  void add(const std::string& path, const ElementType& type, const Shape& shape, const void* data) {
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      add_group(path.substr(0, slash));
    }
    std::array<hsize_t, Shape::kMaxRank> sizes{};
    for (int i = 0; i < shape.rank(); ++i) sizes[static_cast<size_t>(i)] = static_cast<hsize_t>(shape[i]);
    const Hdf5Handle space(
        hdf5_checked(shape.rank() == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(shape.rank(), sizes.data(), nullptr),
                     "make a shape"));
    const Hdf5Handle dataset(
        hdf5_checked(H5Dcreate2(file_, path.c_str(), type.stored, space, H5P_DEFAULT, dataset_properties_, H5P_DEFAULT),
                     "make dataset " + path));
    // Where nothing is stored H5Dget_offset() of HDF5 1.10.8 returns a number that is no place.
    if (shape.numel() == 0 || !places_elements_) return;
    elements_.push_back({static_cast<int64_t>(H5Dget_offset(dataset)),
                         static_cast<int64_t>(H5Dget_storage_size(dataset)), static_cast<const char*>(data)});
  }

  // Closes the file and returns its layout. H5Fget_file_image() is not used: with the latest format, HDF5 1.10.8
  // returns an image with a wrong checksum in its superblock.
  Hdf5Layout finish() {
    hdf5_checked(file_.close(), "complete the file");
    require<CheckpointError>(image_.size() > kBlockBytes + kSuperblockBytes, "HDF5 made no file in memory");
    const std::string_view superblock = image_.view().substr(kBlockBytes);
    int64_t end = 0;
    if (superblock.starts_with(kSignature)) std::memcpy(&end, superblock.data() + kEndAt, sizeof(end));
    std::sort(elements_.begin(), elements_.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
    int64_t placed = kBlockBytes + kSuperblockBytes;
    for (const Hdf5Layout::Elements& one : elements_) {
      require<CheckpointError>(one.begin >= placed && one.bytes <= end - one.begin,
                               "HDF5 gave elements the place {} after {} of {} bytes", one.begin, placed, end);
      placed = one.begin + one.bytes;
    }
    require<CheckpointError>(end >= placed, "HDF5 made a file that ends at byte {}", end);
    return {std::move(image_), std::move(elements_), end};
  }

 private:
  // HDF5 builds the file in `image`, which remains after HDF5 has closed the file.
  static H5FD_file_image_callbacks_t keep_in(ByteBlock& image) {
    H5FD_file_image_callbacks_t callbacks{};
    callbacks.image_realloc = [](void*, size_t size, H5FD_file_image_op_t, void* kept) -> void* {
      auto* image_kept = static_cast<ByteBlock*>(kept);
      const int64_t before = image_kept->size(), bytes = static_cast<int64_t>(size);
      if (!image_kept->resize(bytes)) return nullptr;
      // The bytes that HDF5 leaves out are zero, so that the same content produces the same bytes.
      if (bytes > before) std::memset(image_kept->data() + before, 0, static_cast<size_t>(bytes - before));
      return image_kept->data();
    };
    callbacks.image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; };
    callbacks.udata_copy = [](void* kept) { return kept; };
    callbacks.udata_free = [](void*) -> herr_t { return 0; };
    callbacks.udata = &image;
    return callbacks;
  }

  static Hdf5Handle create(ByteBlock& image, int64_t metadata_bytes) {
    const Hdf5Handle creation = hdf5_properties(H5P_FILE_CREATE), access = hdf5_properties(H5P_FILE_ACCESS);
    hdf5_checked(H5Pset_userblock(creation, kBlockBytes), "leave room for the first block");
    hdf5_checked(H5Pset_obj_track_times(creation, false), "leave out timestamps");
    // The latest format of HDF5 1.10, so that a later library writes files that 1.10 can read.
    hdf5_checked(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "choose a file version");
    hdf5_checked(H5Pset_fapl_core(access, kMemoryStep, false), "keep a file in memory");
    if (metadata_bytes > 0) {
      hdf5_checked(H5Pset_meta_block_size(access, static_cast<hsize_t>(metadata_bytes)), "keep metadata together");
    }
    hdf5_checked(H5Pset_small_data_block_size(access, 0), "store elements without gaps");
    H5FD_file_image_callbacks_t callbacks = keep_in(image);
    hdf5_checked(H5Pset_file_image_callbacks(access, &callbacks), "keep a file in memory");
    return Hdf5Handle(hdf5_checked(H5Fcreate(kNoFile, H5F_ACC_TRUNC, creation, access), "make a file in memory"));
  }

  bool places_elements_;
  ByteBlock image_;
  Hdf5Handle file_, group_properties_, dataset_properties_;
  std::set<std::string> groups_;
  std::vector<Hdf5Layout::Elements> elements_;
};

struct Values {
  ElementType type;
  Shape shape;
  const void* data = nullptr;
};

Hdf5Layout lay_out(const CheckpointContent& content, std::span<const TensorSpec> more, int64_t metadata_bytes) {
  LayoutWriter writer(metadata_bytes);
  for (const char* group : {"tensors", "integers", "reals", "texts"}) writer.add_group(group);
  // By name, because HDF5 stores the same names in another order with other gaps.
  std::map<std::string, Values> tensors;
  for (const auto& [name, tensor] : content.tensors) {
    tensors["tensors/" + name] = {element_type(tensor.dtype()), tensor.shape(), tensor.ref().data};
  }
  for (const TensorSpec& tensor : more) {
    tensors["tensors/" + tensor.name] = {element_type(tensor.dtype), tensor.shape};
  }
  for (const auto& [path, tensor] : tensors) writer.add(path, tensor.type, tensor.shape, tensor.data);
  for (const auto& [name, value] : content.integers) writer.add("integers/" + name, i64_type(), {}, &value);
  for (const auto& [name, value] : content.reals) writer.add("reals/" + name, f64_type(), {}, &value);
  for (const auto& [name, text] : content.texts) {
    writer.add("texts/" + name, u8_type(), {static_cast<int64_t>(text.size())}, text.data());
  }
  return writer.finish();
}

Hdf5Layout lay_out(const CheckpointContent& content, std::span<const TensorSpec> more) {
  require_storable(content);
  const data::Hdf5Call call;
  // The file without elements is as long as the metadata.
  return lay_out(content, more, lay_out(content, more, 0).size());
}

}  // namespace
}  // namespace hdf5

void Hdf5Layout::copy(int64_t begin, std::span<char> to) const {
  const int64_t end = begin + static_cast<int64_t>(to.size());
  const int64_t metadata_end = std::clamp(metadata_.size(), begin, end);
  std::copy(metadata_.data() + begin, metadata_.data() + metadata_end, to.begin());
  std::fill(to.begin() + (metadata_end - begin), to.end(), '\0');
  const auto is_before = [](const Elements& one, int64_t place) { return one.begin + one.bytes <= place; };
  auto one = std::lower_bound(elements_.begin(), elements_.end(), begin, is_before);
  for (; one != elements_.end() && one->begin < end; ++one) {
    const int64_t first = std::max(begin, one->begin), last = std::min(end, one->begin + one->bytes);
    std::copy(one->data + (first - one->begin), one->data + (last - one->begin), to.begin() + (first - begin));
  }
}

Hdf5Layout lay_out(const CheckpointContent& content) { return hdf5::lay_out(content, {}); }

int64_t image_bytes(const CheckpointContent& content, std::span<const TensorSpec> more) {
  return hdf5::lay_out(content, more).size();
}

std::string content_to_image(const CheckpointContent& content) {
  const Hdf5Layout layout = lay_out(content);
  std::string image(static_cast<size_t>(layout.size()), '\0');
  layout.copy(0, image);
  return image;
}

}  // namespace heed::train
