// Runs the threads of a block as fibers of one OS thread.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/fiber.hpp"

namespace hostcuda {

constexpr unsigned kWarp = 32, kMaxThreads = 1024;
constexpr uint32_t kMaxEpoch = 0xFFFF;  // see Warp

struct Launch {
  KernelCall call;
  dim3 grid, block;
  size_t shared_bytes;
  uint32_t first_interval = 0;  // see Multiprocessor::interval
};

struct AsyncCopy {
  unsigned char* to;
  const unsigned char* from;
  bool valid;
  const void* place;
};

struct Thread {
  enum class State : uint8_t { ready, at_barrier, at_warp_operation, done };

  Fiber fiber;
  uint3 index;
  unsigned linear, warp, lane;
  State state;
  const char* operation;  // what it waits for, and where
  Site site;
  std::vector<AsyncCopy> copies;   // issued and not landed
  std::vector<size_t> group_ends;  // the committed groups: how many of the copies each ends behind
};

// What some lanes of a warp do together. The last one to arrive does it for all.
struct WarpOperation {
  unsigned mask, arrived;
  const char* name;
  Site site;
  std::array<void*, kWarp> arguments;  // of the lanes that have arrived
};
struct Warp {
  unsigned present, exited;
  uint32_t epoch;          // counts the __syncwarp of all lanes since the last barrier
  unsigned waiting_count;  // operations that lanes wait at: one, unless the warp is divided
  std::array<WarpOperation, kWarp> waiting;
};

// The threads that can go on. Each is in it at most once.
class ReadyThreads {
 public:
  void clear() { first_ = size_ = 0; }
  bool empty() const { return size_ == 0; }
  void push(Thread& thread) { queue_[(first_ + size_++) % kMaxThreads] = &thread; }
  Thread& pop();

 private:
  std::array<Thread*, kMaxThreads> queue_;
  unsigned first_ = 0, size_ = 0;
};

// What one OS thread needs to run blocks, one after another.
class Multiprocessor {
 public:
  Multiprocessor();
  Multiprocessor(const Multiprocessor&) = delete;
  Multiprocessor& operator=(const Multiprocessor&) = delete;
  ~Multiprocessor();

  void run(Launch& launch, uint3 block);  // throws nothing; a fault sets failed()
  bool failed() const { return failed_; }

  // ---- For the running thread
  // Waits until a barrier or an operation makes the thread ready again.
  void park();
  void finish_thread();  // returns when the next block begins
  [[noreturn]] void abandon_block();
  int barrier(const char* name, bool vote, Site site);
  void warp_operation(const char* name, unsigned mask, Site site, void* arguments,
                      void (*lead)(Warp&, const WarpOperation&));

  // ---- What the checks of memory look at
  Launch* launch = nullptr;
  uint3 block{};
  // Barriers divide what a block does into intervals, which are numbered over all blocks and launches. Two accesses in
  // different intervals of one block are ordered.
  uint32_t first_interval = 0, interval = 0;
  std::vector<Warp> warps;
  unsigned char *shared_begin = nullptr, *shared_end = nullptr;  // dynamic shared memory of this block
  unsigned char* shared_arena = nullptr;                         // kSharedBytes, then a guard
  static constexpr size_t kSharedBytes = 228 << 10, kGuardBytes = 256 << 10;

  Thread& thread(unsigned linear) { return *threads_[linear]; }
  unsigned thread_count() const { return count_; }
  bool arena_owns(const void* address) const {
    return static_cast<size_t>(static_cast<const unsigned char*>(address) - shared_arena) < kSharedBytes + kGuardBytes;
  }
  // "kernel k, block (0,0,0)", and with the thread.
  std::string where() const;
  std::string where(const Thread& thread) const;

 private:
  void begin(Launch& launch, uint3 block);
  void enter(Thread& thread);
  void switch_to_next(Context& from);
  std::string who_waits() const;
  void make_ready(Thread& thread);
  // The operation of this kind that lanes of the mask wait at, begun if there is none.
  WarpOperation& join(Warp& warp, unsigned mask);
  [[noreturn]] void refuse_barrier(const std::string& why);
  [[noreturn]] void refuse_warp_operation(const std::string& why);

  Context scheduler_;
  std::vector<std::unique_ptr<Thread>> threads_;
  ReadyThreads ready_;
  unsigned count_ = 0, live_ = 0, arrived_ = 0;
  const char* barrier_name_ = nullptr;
  Site barrier_site_;
  int votes_ = 0, votes_of_last_ = 0;
  bool failed_ = false;
};

extern thread_local constinit Multiprocessor* multiprocessor;  // null outside of kernels
extern thread_local constinit Thread* self;                    // the running thread of the block, null outside

// Two sites that are the same line.
inline bool same_site(const Site& a, const Site& b) {
  return a.line() == b.line() && (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}
std::string describe(const Site& site);

void run_launch(Launch& launch);
uint32_t new_interval();

extern uint64_t schedule;
uint64_t next_random(uint64_t& state);

}  // namespace hostcuda
