#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "autograd/core/host_limits.hpp"
#include "data/io/hdf5_handle.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/hdf5_element.hpp"
#include "train/checkpoint/hdf5_image.hpp"

namespace heed::train {
namespace hdf5 {
namespace {

using data::hdf5_checked, data::hdf5_properties, data::Hdf5Handle;

// HDF5 File Format Specification, superblock version 3.
constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr int64_t kSuperblockBytes = 48;
constexpr int64_t kEndAt = 28;  // offset of the end-of-file address, which counts from the first byte of the file

// HDF5 stores small datasets in blocks of 2 KiB and may leave the ends of some unused: at most 5 KiB in thousands of
// tested contents, independent of their size.
constexpr int64_t kMaxGapBytes = int64_t{32} << 10;

// Whether the elements are written, or only the names, shapes and types.
enum class Elements { written, left_out };

class ImageWriter {
 public:
  // first_bytes: initial size of the image; whenever it is too small, HDF5 adds as much again.
  ImageWriter(Elements elements, int64_t first_bytes)
      : elements_(elements),
        image_(first_bytes),
        file_(create(image_, first_bytes)),
        group_properties_(hdf5_properties(H5P_GROUP_CREATE)),
        dataset_properties_(hdf5_properties(H5P_DATASET_CREATE)) {
    hdf5_checked(H5Pset_obj_track_times(group_properties_, false), "leave out timestamps");
    hdf5_checked(H5Pset_obj_track_times(dataset_properties_, false), "leave out timestamps");
    hdf5_checked(H5Pset_fill_time(dataset_properties_, H5D_FILL_TIME_NEVER), "leave out fill values");
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
    if (shape.numel() == 0) return;
    if (elements_ == Elements::left_out) {
      left_out_bytes_ += checked_multiply(shape.numel(), static_cast<int64_t>(H5Tget_size(type.stored)));
      return;
    }
    hdf5_checked(H5Dwrite(dataset, type.in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write dataset " + path);
  }

  // Total over all datasets.
  int64_t left_out_bytes() const { return left_out_bytes_; }

  // Closes the file and returns its image. H5Fget_file_image() is not used: with the latest format, HDF5 1.10.8 returns
  // an image with a wrong checksum in its superblock.
  ByteBlock finish() {
    hdf5_checked(file_.close(), "complete the file");
    require<CheckpointError>(image_.size() > kBlockBytes + kSuperblockBytes, "HDF5 made no file in memory");
    const std::string_view superblock = image_.view().substr(kBlockBytes);
    int64_t end = 0;
    if (superblock.starts_with(kSignature)) std::memcpy(&end, superblock.data() + kEndAt, sizeof(end));
    require<CheckpointError>(end > kBlockBytes && end <= image_.size() && image_.resize(end),
                             "HDF5 made a file in memory that ends at {} of {} bytes", end, image_.size());
    return std::move(image_);
  }

 private:
  // HDF5 builds the file in `image`, which remains after HDF5 has closed the file.
  static H5FD_file_image_callbacks_t keep_in(ByteBlock& image) {
    H5FD_file_image_callbacks_t callbacks{};
    callbacks.image_realloc = [](void*, size_t size, H5FD_file_image_op_t, void* kept) -> void* {
      auto* image_kept = static_cast<ByteBlock*>(kept);
      return image_kept->resize(static_cast<int64_t>(size)) ? image_kept->data() : nullptr;
    };
    callbacks.image_free = [](void*, H5FD_file_image_op_t, void*) -> herr_t { return 0; };
    callbacks.udata_copy = [](void* kept) { return kept; };
    callbacks.udata_free = [](void*) -> herr_t { return 0; };
    callbacks.udata = &image;
    return callbacks;
  }

  static Hdf5Handle create(ByteBlock& image, int64_t first_bytes) {
    const Hdf5Handle creation = hdf5_properties(H5P_FILE_CREATE), access = hdf5_properties(H5P_FILE_ACCESS);
    hdf5_checked(H5Pset_userblock(creation, kBlockBytes), "leave room for the first block");
    hdf5_checked(H5Pset_obj_track_times(creation, false), "leave out timestamps");
    // The latest format of HDF5 1.10, so that a later library writes files that 1.10 can read.
    hdf5_checked(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "choose a file version");
    hdf5_checked(H5Pset_fapl_core(access, static_cast<size_t>(first_bytes), false), "keep a file in memory");
    H5FD_file_image_callbacks_t callbacks = keep_in(image);
    hdf5_checked(H5Pset_file_image_callbacks(access, &callbacks), "keep a file in memory");
    return Hdf5Handle(hdf5_checked(H5Fcreate(kNoFile, H5F_ACC_TRUNC, creation, access), "make a file in memory"));
  }

  Elements elements_;
  int64_t left_out_bytes_ = 0;
  ByteBlock image_;
  Hdf5Handle file_, group_properties_, dataset_properties_;
  std::set<std::string> groups_;
};

void write(ImageWriter& writer, const CheckpointContent& content) {
  for (const char* group : {"tensors", "integers", "reals", "texts"}) writer.add_group(group);
  for (const auto& [name, tensor] : content.tensors) {
    writer.add("tensors/" + name, element_type(tensor.dtype()), tensor.shape(), tensor.ref().data);
  }
  for (const auto& [name, value] : content.integers) writer.add("integers/" + name, i64_type(), {}, &value);
  for (const auto& [name, value] : content.reals) writer.add("reals/" + name, f64_type(), {}, &value);
  for (const auto& [name, text] : content.texts) {
    writer.add("texts/" + name, u8_type(), {static_cast<int64_t>(text.size())}, text.data());
  }
}

}  // namespace
}  // namespace hdf5

int64_t max_image_bytes(const CheckpointContent& content, std::span<const TensorSpec> more) {
  require_storable(content);
  const data::Hdf5Call call;
  hdf5::ImageWriter writer(hdf5::Elements::left_out, static_cast<int64_t>(hdf5::kMemoryStep));
  hdf5::write(writer, content);
  for (const TensorSpec& tensor : more) {
    writer.add("tensors/" + tensor.name, hdf5::element_type(tensor.dtype), tensor.shape, nullptr);
  }
  const int64_t left_out_bytes = writer.left_out_bytes();
  return writer.finish().size() + left_out_bytes + hdf5::kMaxGapBytes;
}

ByteBlock content_to_image(const CheckpointContent& content) {
  const int64_t max_bytes = max_image_bytes(content);
  make_room(max_bytes);  // HDF5 reports whether that was enough
  const data::Hdf5Call call;
  hdf5::ImageWriter writer(hdf5::Elements::written, max_bytes);
  hdf5::write(writer, content);
  return writer.finish();
}

}  // namespace heed::train
