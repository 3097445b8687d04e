// Conversion of a checkpoint's content to and from an HDF5 file, without access to the disk.
//
//   /tensors/<name>    f32, f64 or i32, up to five dimensions
//   /integers/<name>   i64, a scalar
//   /reals/<name>      f64, a scalar
//   /texts/<name>      u8, one dimension: the bytes of the text
// Little-endian, contiguous, no timestamps: the same content produces the same bytes. All four groups always exist.
// HDF5 1.10 and later can read the file. HDF5 may crash on damaged bytes, so a checksum must be verified before
// reading. A checksum does not stop a malicious file, so everything that could access other files or consume unbounded
// time or memory is refused: links other than hard links, elements in other files or datasets, chunked or filtered
// elements, objects with two paths, datasets that share elements, names that heed does not write, other top-level
// groups. Attributes are ignored.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/core/check.hpp"
#include "train/checkpoint/checkpoint_content.hpp"

namespace heed::train {

// A resizable byte buffer without zero-initialization.
class ByteBlock {
 public:
  ByteBlock() = default;
  // Throws MemoryError.
  explicit ByteBlock(int64_t size) {
    require<MemoryError>(resize(size), "out of memory: {} bytes asked for (a checkpoint)", size);
  }

  // Keeps the content that fits; may move the buffer. Returns false, and changes nothing, if there is no memory.
  bool resize(int64_t size) noexcept {
    void* moved = std::realloc(data_.get(), static_cast<size_t>(size) + 1);  // realloc() of 0 bytes may return null
    if (moved == nullptr) return false;
    static_cast<void>(data_.release());
    data_.reset(static_cast<char*>(moved));
    size_ = size;
    return true;
  }

  char* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  std::string_view view() const { return {data(), static_cast<size_t>(size_)}; }

 private:
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  std::unique_ptr<char, Free> data_;
  int64_t size_ = 0;
};

// The HDF5 file of a content without a copy of its elements: HDF5 makes the metadata (names, shapes, types and where
// the elements are in the file), which are some hundred bytes per value; the elements stay in the content.
class Hdf5Layout {
 public:
  // Elements of one dataset: `bytes` bytes from byte `begin` of the file on.
  struct Elements {
    int64_t begin = 0, bytes = 0;
    const char* data = nullptr;
  };

  // metadata: the file from its first byte on, with zeros where elements are; it may be longer than the file.
  // elements: in the order of their place in the file.
  Hdf5Layout(ByteBlock metadata, std::vector<Elements> elements, int64_t size)
      : metadata_(std::move(metadata)), elements_(std::move(elements)), size_(size) {}

  // Length of the file in bytes.
  int64_t size() const { return size_; }
  // Copies the bytes of the file from byte `begin` on, as many as `to` has; they must be within the file.
  void copy(int64_t begin, std::span<char> to) const;

 private:
  ByteBlock metadata_;
  std::vector<Elements> elements_;
  int64_t size_;
};

// The file, whose first kBlockBytes bytes, the user block, are zero. The content must outlive it, unchanged. Time and
// memory depend on the names only.
// Throws ValueError (see require_storable), DTypeError for a bf16 tensor, CheckpointError, MemoryError.
Hdf5Layout lay_out(const CheckpointContent& content);

// Length of that file with the tensors in `more` added. Throws as lay_out() does.
int64_t image_bytes(const CheckpointContent& content, std::span<const TensorSpec> more = {});

// That file as a whole in memory, for small contents.
std::string content_to_image(const CheckpointContent& content);

// Throws CheckpointError with the dataset or group, MemoryError.
CheckpointContent image_to_content(std::string_view image);

}  // namespace heed::train
