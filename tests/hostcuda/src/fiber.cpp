#include "src/fiber.hpp"

#include <sys/mman.h>

#include "src/report.hpp"

#ifndef __x86_64__
#error "the CUDA emulation switches stacks by code for x86-64"
#endif

// Saves what a function has to preserve, and leaves with the other stack.
extern "C" void hostcuda_switch(void** save, void* load);
asm(R"(
.text
.globl hostcuda_switch
.type hostcuda_switch, @function
hostcuda_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size hostcuda_switch, .-hostcuda_switch
)");

namespace hostcuda {

Fiber::Fiber() {
  // Stacks that all began at the same place of a page would share few lines of the first cache.
  static unsigned count = 0;
  shift_ = count++ % 32 * 128;
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) give_up("no memory for the stack of a thread");
  mprotect(memory, kGuardBytes, PROT_NONE);
  stack_ = static_cast<char*>(memory) + kGuardBytes;
}

Fiber::~Fiber() { munmap(stack_ - kGuardBytes, kGuardBytes + kStackBytes); }

void Fiber::start(void (*entry)()) {
  auto** top = static_cast<void**>(this->top());
  *--top = nullptr;                              // where entry would return to: ends backtraces
  *--top = reinterpret_cast<void*>(entry);       // what the switch returns to
  for (int i = 0; i < 6; ++i) *--top = nullptr;  // the registers that it restores
  stack_pointer = top;
}

void switch_context(Context& from, Context& to) { hostcuda_switch(&from.stack_pointer, to.stack_pointer); }

}  // namespace hostcuda
