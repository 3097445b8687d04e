// Memory: a caching pool and an account of who holds how much.
//
// A Buffer owns one block of the pool (64-byte aligned, uninitialised) and gives it back when destroyed. Freed blocks
// are kept by size class and used again, so that after the first update training asks the system for nothing.
// Thread-safe. Throws MemoryError with the bytes asked for and those in use.
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
// Gives cached blocks back to the system; those up to 2 MiB only where none of them is in use.
void release_cached_memory(Device device);
// Test mode: new blocks are filled with NaN bits, so that reading memory nobody wrote shows.
void set_memory_poison(bool on);
// Test mode off: every block is an allocation of its own, so that an access outside of it shows. Throws MemoryError
// while memory is in use.
void set_memory_caching(Device device, bool on);

// In the order of the device's work; on return the host may use its side again.
void copy_memory(void* to, Device to_device, const void* from, Device from_device, int64_t bytes);
void fill_memory(void* memory, Device device, int byte, int64_t bytes);

// What is allocated on a device until close() is kept, when it is freed, for the life of the reservation: work that was
// recorded then and is replayed later finds its memory untouched. One at a time.
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
  int64_t bytes_ = 0;  // as asked for; the block may be larger
  Device device_ = Device::cpu;
  MemoryCategory category_ = MemoryCategory::activations;
};

}  // namespace heed
