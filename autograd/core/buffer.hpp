// Memory: a caching pool and an account of who holds how much.
//
// A Buffer owns one block of the pool (64-byte aligned, uninitialised) and gives it back when destroyed. Freed blocks
// are kept by size class and used again, so that after the first update training asks the system for nothing.
// Thread-safe. Throws MemoryError with the bytes asked for and those in use.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "autograd/core/device.hpp"

namespace heed {

enum class MemoryCategory { parameters, gradients, optimizer, activations, workspace };
inline constexpr int kMemoryCategories = 5;
std::string_view name(MemoryCategory category);

struct MemoryUse {
  int64_t current_bytes = 0;
  int64_t peak_bytes = 0;  // since start or reset_memory_peaks()
};

struct MemoryReport {
  std::array<MemoryUse, kMemoryCategories> category;
  MemoryUse total;                 // peak of the sum, not the sum of the peaks
  int64_t cached_bytes = 0;        // freed blocks kept for reuse
  int64_t system_allocations = 0;  // blocks that did not come from the cache
};

MemoryReport memory_report(Device device);
void reset_memory_peaks(Device device);
// Gives cached blocks back to the system; those up to 2 MiB only where none of them is in use.
void release_cached_memory(Device device);
// Test mode: new blocks are filled with NaN bits, so that reading memory nobody wrote shows.
void set_memory_poison(bool on);

class Buffer {
 public:
  Buffer() = default;
  Buffer(int64_t bytes, Device device, MemoryCategory category);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  Device device() const { return device_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;  // as asked for; the block may be larger
  Device device_ = Device::cpu;
  MemoryCategory category_ = MemoryCategory::activations;
};

}  // namespace heed
