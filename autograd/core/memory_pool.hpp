// The pool behind Buffer: keeps freed blocks by size class and gives them out again. Thread-safe.
//
// On CUDA all blocks are used in the order of one stream, so a freed block may go to the next one who asks although the
// kernel that read it has not run yet.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "autograd/core/buffer.hpp"

namespace heed {

// Where a pool gets its memory from.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(int64_t bytes) = 0;  // nullptr where there is no more
  virtual void free(void* memory) noexcept = 0;
  virtual int64_t alignment() const = 0;      // of blocks that are cut out of larger pieces; a power of two
  virtual std::string free_text() const = 0;  // ", 3.0 MiB free of 1.0 GiB (this machine)", or nothing
};

class MemoryPool {
 public:
  // Without caching every block is asked of the source and goes back when it is freed.
  MemoryPool(MemorySource& source, bool caching) : source_(source), caching_(caching) {}

  // Throws MemoryError.
  void* allocate(int64_t bytes, MemoryCategory category);
  void free(void* block, int64_t bytes, MemoryCategory category);
  MemoryReport report();
  void reset_peaks();
  void release_cached();
  void set_caching(bool on);

  // From open to close, blocks that are given out belong to the reservation: when freed, they are kept for it alone,
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
  // Small blocks are cut out of larger pieces.
  std::vector<void*> pieces_;
  char* next_ = nullptr;
  int64_t left_ = 0;  // in the last piece
  int64_t small_in_use_ = 0;
  MemoryReport report_;
};

// What a MemoryError of a pool ends with: the config keys that lower a category, in words. None at the start, and
// whoever knows which keys there are sets it: training has some that generation has not. Thread-safe.
void set_memory_advice(MemoryCategory category, const std::string& advice);
// Throws that error for `bytes` that cannot be had; in_use and free_text as in MemoryPool and MemorySource.
[[noreturn]] void throw_memory_error(int64_t bytes, MemoryCategory category, int64_t in_use,
                                     const std::string& free_text);

// The pool of a device. Never destroyed: tensors with static lifetime may outlive it otherwise.
MemoryPool& memory_pool(Device device);

}  // namespace heed
