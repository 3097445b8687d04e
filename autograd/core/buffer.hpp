// Memory buffers from a caching pool, with accounting by category.
//
// A Buffer owns one block of the pool (64-byte aligned, uninitialised) and returns it when destroyed. The pool keeps
// freed blocks by size class and reuses them, so that after the first training step no system memory is allocated.
// Thread-safe. Throws MemoryError with the bytes requested and the bytes in use.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

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
// Returns cached blocks to the system; those of up to 2 MiB only if no block of up to 2 MiB is in use and no
// MemoryReservation holds blocks.
void release_cached_memory(Device device);
// Test mode: fills new blocks with NaN bits, so that reads of uninitialised memory are visible.
void set_memory_poison(bool on);
// Test mode if off: every block is a separate allocation, so that out-of-bounds accesses are detected. Throws
// MemoryError while memory is in use.
void set_memory_caching(Device device, bool on);

// Stream-ordered on CUDA; the host buffer may be reused on return.
void copy_memory(void* to, Device to_device, const void* from, Device from_device, int64_t bytes);
void fill_memory(void* memory, Device device, int byte, int64_t bytes);

// Holds the blocks that are allocated on a device before close(): when freed, they stay with the reservation until it
// is destroyed. Replays of a CUDA graph captured in this time find its memory untouched. At most one reservation of a
// device may be open (MemoryError).
class MemoryReservation {
 public:
  explicit MemoryReservation(Device device);
  ~MemoryReservation();
  MemoryReservation(const MemoryReservation&) = delete;
  MemoryReservation& operator=(const MemoryReservation&) = delete;
  void close();

 private:
  using Blocks = std::map<int64_t, std::vector<void*>>;
  Device device_;
  std::unique_ptr<Blocks> blocks_;
};

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
  int64_t bytes_ = 0;  // as requested; the block may be larger
  Device device_ = Device::cpu;
  MemoryCategory category_ = MemoryCategory::activations;
};

}  // namespace heed
