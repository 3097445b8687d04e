// The caching allocator of Buffer: keeps freed blocks by size class and reuses them. Thread-safe.
//
// On CUDA all blocks are used in the order of one stream, so a freed block may be allocated again before the kernel
// that reads it has run.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/core/buffer.hpp"

namespace heed {

// The system allocator that a pool gets its memory from.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(int64_t bytes) = 0;  // nullptr if out of memory
  virtual void free(void* memory) noexcept = 0;
  virtual int64_t alignment() const = 0;      // of blocks that are cut from slabs; a power of two
  virtual std::string free_text() const = 0;  // ", 3.0 MiB free of 1.0 GiB (this machine)", or empty
};

class MemoryPool {
 public:
  // Without caching every block is allocated from the source and returned to it when freed.
  MemoryPool(MemorySource& source, bool caching) : source_(source), caching_(caching) {}

  // Throws MemoryError.
  void* allocate(int64_t bytes, MemoryCategory category);
  void free(void* block, int64_t bytes, MemoryCategory category);
  MemoryReport report();
  void reset_peaks();
  void release_cached();
  void set_caching(bool on);

  // Blocks that are allocated between open and close belong to the reservation: when freed, they are kept for it alone,
  // until it is dropped.
  using Blocks = std::map<int64_t, std::vector<void*>>;  // by size
  void open_reservation(Blocks* reservation);
  void close_reservation();
  void drop_reservation(Blocks* reservation);

 private:
  int64_t size_class(int64_t bytes) const;
  bool is_small(int64_t block_bytes) const;
  void* take(Blocks& blocks, int64_t block_bytes);
  void* ask_source(int64_t block_bytes, int64_t bytes, MemoryCategory category);
  void* cut_small(int64_t block_bytes);
  void account(MemoryCategory category, int64_t change);
  void release_cached_locked();
  void free_pieces();

  MemorySource& source_;
  bool caching_;
  std::mutex mutex_;
  Blocks cached_;
  Blocks* open_ = nullptr;
  std::unordered_map<void*, Blocks*> reserved_;
  // Slabs that small blocks are cut from.
  std::vector<void*> pieces_;
  char* next_ = nullptr;
  int64_t left_ = 0;  // bytes left in the last slab
  int64_t small_in_use_ = 0;
  MemoryReport report_;
};

// Sets the advice at the end of a pool's MemoryError: the config keys that reduce a category, in words. Empty by
// default, and set by the caller: training has keys that generation does not have. Thread-safe.
void set_memory_advice(MemoryCategory category, const std::string& advice);
// Throws that error for an allocation of `bytes` that failed; in_use: all bytes in use; free_text: as in MemorySource.
[[noreturn]] void throw_memory_error(int64_t bytes, MemoryCategory category, int64_t in_use,
                                     const std::string& free_text);

// The pool of a device. Never destroyed, because tensors with static lifetime may outlive it.
MemoryPool& memory_pool(Device device);

}  // namespace heed
