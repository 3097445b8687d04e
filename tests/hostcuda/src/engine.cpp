#include "src/engine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "src/access.hpp"
#include "src/arena.hpp"
#include "src/position.hpp"
#include "src/report.hpp"
#include "src/shared_memory.hpp"
#include "src/symbols.hpp"

namespace hostcuda {

thread_local constinit Multiprocessor* multiprocessor = nullptr;
thread_local constinit Thread* self = nullptr;
uint64_t schedule = environment_number("HOSTCUDA_SCHEDULE", 0);

namespace {

constexpr size_t kPage = 4096;

Stats stats{};
uint64_t random_state = 0;

void run_thread() {
  for (;;) {
    const KernelCall& call = multiprocessor->launch->call;
    call.call(call.arguments.get());
    multiprocessor->finish_thread();
  }
}

}  // namespace

void set_schedule(uint64_t seed) { schedule = seed; }

Stats take_stats() {
  Stats taken = std::exchange(stats, {});
  taken.accesses = take_access_count();
  return taken;
}

uint64_t next_random(uint64_t& state) {  // splitmix64 (Steele, Lea, Flood 2014)
  uint64_t word = (state += 0x9E3779B97F4A7C15u);
  word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
  word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
  return word ^ (word >> 31);
}

uint32_t new_interval() {
  static uint32_t next = kFirstInterval;
  if (next == UINT32_MAX) give_up("more barriers and blocks than one process can number");
  return next++;
}

Thread& ReadyThreads::pop() {
  if (schedule > 1) {
    const auto chosen = static_cast<unsigned>(next_random(random_state) % size_);
    std::swap(queue_[(first_ + chosen) % kMaxThreads], queue_[(first_ + size_ - 1) % kMaxThreads]);
  }
  --size_;
  if (schedule > 0) return *queue_[(first_ + size_) % kMaxThreads];
  Thread& thread = *queue_[first_];
  first_ = (first_ + 1) % kMaxThreads;
  return thread;
}

Multiprocessor::Multiprocessor() {
  void* memory =
      mmap(nullptr, kPage + kSharedBytes + kGuardBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) give_up("no memory for dynamic shared memory");
  shared_arena = static_cast<unsigned char*>(memory) + kPage;
  mprotect(memory, kPage, PROT_NONE);
  mprotect(shared_arena + kSharedBytes, kGuardBytes, PROT_NONE);
  install_fault_handler();
}

Multiprocessor::~Multiprocessor() { munmap(shared_arena - kPage, kPage + kSharedBytes + kGuardBytes); }

void Multiprocessor::begin(Launch& new_launch, uint3 new_block) {
  multiprocessor = this;
  launch = &new_launch;
  block = new_block;
  const dim3 size = launch->block;
  set_block(block, size, launch->grid);
  count_ = live_ = size.x * size.y * size.z;
  arrived_ = 0;
  votes_ = 0;
  failed_ = false;
  first_interval = interval = new_interval();
  random_state = schedule * 0x2545F4914F6CDD1Du + block.x + 65537ull * block.y + (uint64_t{block.z} << 40);
  warps.resize((count_ + kWarp - 1) / kWarp);
  for (unsigned i = 0; i < warps.size(); ++i) {
    const unsigned lanes = std::min(kWarp, count_ - i * kWarp);
    warps[i].present = kAllLanes >> (kWarp - lanes);
    warps[i].exited = warps[i].epoch = warps[i].waiting_count = 0;
  }
  ready_.clear();
  while (threads_.size() < count_) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->fiber.start(run_thread);
  }
  for (unsigned i = 0; i < count_; ++i) {
    Thread& thread = *threads_[i];
    thread.linear = i;
    thread.warp = i / kWarp;
    thread.lane = i % kWarp;
    thread.index = {i % size.x, i / size.x % size.y, i / (size.x * size.y)};
    thread.copies.clear();
    thread.group_ends.clear();
    make_ready(thread);
  }
  poison_shared(*this);
  enter_block(*this);
}

void Multiprocessor::run(Launch& new_launch, uint3 new_block) {
  begin(new_launch, new_block);
  switch_to_next(scheduler_);
  // Back here where all threads have finished, none can go on, or one gave the block up.
  self = nullptr;
  if (!failed_ && live_ != 0) {
    report("barrier", where() + ": no thread can go on: " + who_waits());
    failed_ = true;
  }
  if (failed_) {
    for (auto& thread : threads_) thread->fiber.start(run_thread);
  } else {
    check_shared(*this);
  }
  ++stats.blocks;
  multiprocessor = nullptr;
}

void Multiprocessor::enter(Thread& thread) {
  ++stats.switches;
  self = &thread;
  set_thread(thread.index);
  if (kSeesAllAccesses) enter_thread(*this, thread);
}

void Multiprocessor::switch_to_next(Context& from) {
  if (ready_.empty()) {
    switch_context(from, scheduler_);
    return;
  }
  Thread& next = ready_.pop();
  enter(next);
  if (&next.fiber != &from) switch_context(from, next.fiber);
}

void Multiprocessor::make_ready(Thread& thread) {
  thread.state = Thread::State::ready;
  ready_.push(thread);
}

void Multiprocessor::park() { switch_to_next(self->fiber); }

void Multiprocessor::abandon_block() {
  failed_ = true;
  switch_context(self->fiber, scheduler_);
  __builtin_unreachable();  // the fiber is started anew
}

void Multiprocessor::finish_thread() {
  Thread& thread = *self;
  thread.state = Thread::State::done;
  --live_;
  warps[thread.warp].exited |= 1u << thread.lane;
  if (!thread.copies.empty()) {
    report("async", where(thread) + ": exits with cp.async copies that it never waited for, the first of them [" +
                        source_line(thread.copies.front().place) + "]");
  }
  if (arrived_ != 0 && arrived_ == live_) {
    report("barrier", where() + ": threads exit while others wait at a barrier: " + who_waits());
    abandon_block();
  }
  switch_to_next(thread.fiber);
}

int Multiprocessor::barrier(const char* name, bool vote, Site site) {
  Thread& thread = *self;
  thread.operation = name;
  thread.site = site;
  if (arrived_ == 0) {
    barrier_name_ = name;
    barrier_site_ = site;
  } else if (barrier_name_ != name || !same_site(barrier_site_, site)) {
    refuse_barrier("is reached while others wait");
  }
  thread.state = Thread::State::at_barrier;
  votes_ += vote ? 1 : 0;
  if (++arrived_ == live_) {
    if (live_ != count_) refuse_barrier("is complete without threads that have exited");
    arrived_ = 0;
    votes_of_last_ = std::exchange(votes_, 0);
    interval = new_interval();
    for (Warp& warp : warps) warp.epoch = 0;
    for (unsigned i = 0; i < count_; ++i) make_ready(*threads_[i]);
  }
  park();
  return votes_of_last_;
}

WarpOperation& Multiprocessor::join(Warp& warp, unsigned mask) {
  const Thread& thread = *self;
  if ((mask >> thread.lane & 1) == 0) {
    refuse_warp_operation(format("mask %08x lacks the calling lane %u", mask, thread.lane));
  }
  if ((mask & warp.exited) != 0) {
    refuse_warp_operation(format("mask %08x names exited lanes %08x", mask, warp.exited));
  }
  for (unsigned i = 0; i < warp.waiting_count; ++i) {
    WarpOperation& other = warp.waiting[i];
    if ((other.mask & mask) == 0) continue;
    if (other.mask == mask && other.name == thread.operation && same_site(other.site, thread.site)) return other;
    refuse_warp_operation(format("mask %08x, but lanes %08x wait at %s %s with mask %08x", mask, other.arrived,
                                 other.name, hostcuda::describe(other.site).c_str(), other.mask));
  }
  WarpOperation& begun = warp.waiting[warp.waiting_count++];
  begun.mask = mask;
  begun.arrived = 0;
  begun.name = thread.operation;
  begun.site = thread.site;
  return begun;
}

void Multiprocessor::warp_operation(const char* name, unsigned mask, Site site, void* arguments,
                                    void (*lead)(Warp&, const WarpOperation&)) {
  Thread& thread = *self;
  Warp& warp = warps[thread.warp];
  thread.operation = name;
  thread.site = site;
  WarpOperation& operation = join(warp, mask);
  thread.state = Thread::State::at_warp_operation;
  operation.arrived |= 1u << thread.lane;
  operation.arguments[thread.lane] = arguments;
  if (operation.arrived == (mask & warp.present)) {
    lead(warp, operation);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if ((operation.arrived >> lane & 1) != 0) make_ready(*threads_[thread.warp * kWarp + lane]);
    }
    const WarpOperation& last = warp.waiting[--warp.waiting_count];
    if (&last != &operation) operation = last;
  }
  park();
}

void run_launch(Launch& launch) {
  static thread_local Multiprocessor processor;
  ++stats.launches;
  launch.first_interval = new_interval();
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  // A shuffled order without a table: steps of a length that is prime to the number of blocks.
  uint64_t step = 1, shuffled = 0;
  if (schedule > 1) {
    uint64_t state = schedule;
    step = next_random(state) % blocks;
    shuffled = next_random(state) % blocks;
    while (std::gcd(step, blocks) != 1) ++step;
  }
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t linear = schedule == 1 ? blocks - 1 - i : shuffled;
    shuffled = (shuffled + step) % blocks;
    const auto x = static_cast<unsigned>(linear % launch.grid.x);
    const auto y = static_cast<unsigned>(linear / launch.grid.x % launch.grid.y);
    const auto z = static_cast<unsigned>(linear / launch.grid.x / launch.grid.y);
    processor.run(launch, {x, y, z});
    if (processor.failed()) return;
  }
}

void* dynamic_shared() { return multiprocessor->shared_begin; }

}  // namespace hostcuda

void __trap() {
  hostcuda::report("trap", hostcuda::multiprocessor->where(*hostcuda::self) + ": __trap()");
  hostcuda::multiprocessor->abandon_block();
}
