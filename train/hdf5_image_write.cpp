#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "autograd/core/host_limits.hpp"
#include "data/hdf5_call.hpp"
#include "train/checkpoint_block.hpp"
#include "train/hdf5_handle.hpp"
#include "train/hdf5_image.hpp"

namespace heed::train {
namespace hdf5 {
namespace {

// HDF5 File Format Specification, superblock of version 3.
constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
constexpr int64_t kSuperblockBytes = 48;
constexpr int64_t kEndAt = 28;  // where the file ends, counted from its first byte

int64_t total_bytes(const CheckpointContent& content) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : content.tensors) bytes += tensor.numel() * size_bytes(tensor.dtype());
  for (const auto& [name, text] : content.texts) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

class ImageWriter {
 public:
  explicit ImageWriter(int64_t expected_bytes)
      : file_(create(image_, expected_bytes)),
        group_properties_(make_properties(H5P_GROUP_CREATE)),
        dataset_properties_(make_properties(H5P_DATASET_CREATE)) {
    checked(H5Pset_obj_track_times(group_properties_, false), "leave out timestamps");
    checked(H5Pset_obj_track_times(dataset_properties_, false), "leave out timestamps");
    checked(H5Pset_fill_time(dataset_properties_, H5D_FILL_TIME_NEVER), "leave out fill values");
  }

  void add_group(const std::string& path) {
    if (!groups_.insert(path).second) return;
    const Handle group(H5Gcreate2(file_, path.c_str(), H5P_DEFAULT, group_properties_, H5P_DEFAULT), H5Gclose,
                       "make group " + path);
  }

  void add(const std::string& path, const ElementType& type, const Shape& shape, const void* data) {
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
      add_group(path.substr(0, slash));
    }
    std::array<hsize_t, Shape::kMaxRank> sizes{};
    for (int i = 0; i < shape.rank(); ++i) sizes[static_cast<size_t>(i)] = static_cast<hsize_t>(shape[i]);
    const Handle space(
        shape.rank() == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(shape.rank(), sizes.data(), nullptr), H5Sclose,
        "make a shape");
    const Handle dataset(
        H5Dcreate2(file_, path.c_str(), type.stored, space, H5P_DEFAULT, dataset_properties_, H5P_DEFAULT), H5Dclose,
        "make dataset " + path);
    if (shape.numel() == 0) return;
    checked(H5Dwrite(dataset, type.in_memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "write dataset " + path);
  }

  // Ends the writing. Not by H5Fget_file_image(): what HDF5 1.10.8 gives out with the latest format has a wrong
  // checksum in its superblock.
  ByteBlock finish() {
    file_.close("complete the file");
    require<CheckpointError>(image_.size() > kBlockBytes + kSuperblockBytes, "HDF5 made no file in memory");
    const std::string_view superblock = image_.view().substr(kBlockBytes);
    int64_t end = 0;
    if (superblock.starts_with(kSignature)) std::memcpy(&end, superblock.data() + kEndAt, sizeof(end));
    require<CheckpointError>(end > kBlockBytes && end <= image_.size() && image_.resize(end),
                             "HDF5 made a file in memory that ends at {} of {} bytes", end, image_.size());
    return std::move(image_);
  }

 private:
  // HDF5 makes the file in `image`, which is there when HDF5 has closed it.
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

  static Handle create(ByteBlock& image, int64_t expected_bytes) {
    const Handle creation = make_properties(H5P_FILE_CREATE), access = make_properties(H5P_FILE_ACCESS);
    checked(H5Pset_userblock(creation, kBlockBytes), "leave room for the first block");
    checked(H5Pset_obj_track_times(creation, false), "leave out timestamps");
    // What 1.10 calls its latest; a later library then writes what 1.10 can read.
    checked(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "choose a file version");
    // The memory grows by this step: once for nearly all contents.
    const size_t step = kMemoryStep + static_cast<size_t>(expected_bytes + expected_bytes / 16);
    checked(H5Pset_fapl_core(access, step, false), "keep a file in memory");
    H5FD_file_image_callbacks_t callbacks = keep_in(image);
    checked(H5Pset_file_image_callbacks(access, &callbacks), "keep a file in memory");
    return {H5Fcreate(kNoFile, H5F_ACC_TRUNC, creation, access), H5Fclose, "make a file in memory"};
  }

  ByteBlock image_;
  Handle file_, group_properties_, dataset_properties_;
  std::set<std::string> groups_;
};

}  // namespace
}  // namespace hdf5

ByteBlock content_to_image(const CheckpointContent& content) {
  require_storable(content);
  const data::Hdf5Call call;
  const int64_t bytes = hdf5::total_bytes(content);
  make_room(bytes + bytes / 16);  // as HDF5 takes it; whether that is enough, HDF5 says
  hdf5::ImageWriter writer(bytes);
  for (const char* group : {"tensors", "integers", "reals", "texts"}) writer.add_group(group);
  for (const auto& [name, tensor] : content.tensors) {
    writer.add("tensors/" + name, hdf5::element_type(tensor.dtype()), tensor.shape(), tensor.ref().data);
  }
  for (const auto& [name, value] : content.integers) writer.add("integers/" + name, hdf5::i64_type(), {}, &value);
  for (const auto& [name, value] : content.reals) writer.add("reals/" + name, hdf5::f64_type(), {}, &value);
  for (const auto& [name, text] : content.texts) {
    writer.add("texts/" + name, hdf5::u8_type(), {static_cast<int64_t>(text.size())}, text.data());
  }
  return writer.finish();
}

}  // namespace heed::train
