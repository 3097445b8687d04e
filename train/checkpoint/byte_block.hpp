// A resizable byte buffer without zero-initialization.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "autograd/core/check.hpp"

namespace heed::train {

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

}  // namespace heed::train
