// The stacks on which the threads of a block run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostcuda {

// Where an execution stands that does not run: its stack pointer, everything else lies on its stack.
struct Context {
  void* stack_pointer = nullptr;
};
// Goes on at `to`; returns when something switches back to `from`.
void switch_context(Context& from, Context& to);

class Fiber : public Context {
 public:
  Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  // The next switch to it calls entry, which never returns. What was on the stack is dropped.
  void start(void (*entry)());

  bool owns(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(stack_) < kStackBytes;
  }
  // Where a stack that has become too long ends up.
  bool guard_owns(const void* address) const {
    return reinterpret_cast<uintptr_t>(stack_) - 1 - reinterpret_cast<uintptr_t>(address) < kGuardBytes;
  }
  // The upper end of the stack; a fault handler that gives the fiber up runs there.
  void* top() const { return stack_ + kStackBytes - shift_; }

 private:
  static constexpr size_t kStackBytes = 64 << 10, kGuardBytes = 4096;
  char* stack_;
  size_t shift_;
};

}  // namespace hostcuda
