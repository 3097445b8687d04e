// SIGSEGV: a kernel that left its memory gives the block up; host code that touches device memory is named and dies.
#include <ucontext.h>

#include <csignal>
#include <cstdint>

#include "src/arena.hpp"
#include "src/device_memory.hpp"
#include "src/engine.hpp"
#include "src/report.hpp"
#include "src/symbols.hpp"

namespace hostcuda {
namespace {

constexpr size_t kHandlerStackBytes = 256 << 10;

[[noreturn]] void leave() { multiprocessor->abandon_block(); }

bool is_below_a_stack(const void* address) {
  for (unsigned i = 0; i < multiprocessor->thread_count(); ++i) {
    if (multiprocessor->thread(i).fiber.guard_owns(address)) return true;
  }
  return false;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const std::string place = " [" + source_line(reinterpret_cast<void*>(registers[REG_RIP] + 1)) + "]";
  if (self == nullptr) {
    if (is_device(info->si_addr)) report("host", "host code touches " + describe(info->si_addr) + place);
    std::signal(signal, SIG_DFL);  // and the access is made once more
    return;
  }
  const std::string where =
      is_below_a_stack(info->si_addr) ? "the end of the stack of a thread" : describe(info->si_addr);
  report("bounds", multiprocessor->where(*self) + ": faults at " + where + place);
  // Goes on in leave(), on the stack of the thread, which is given up; 8: as if it had been called.
  registers[REG_RIP] = reinterpret_cast<greg_t>(leave);
  registers[REG_RSP] = reinterpret_cast<greg_t>(self->fiber.top()) - 4096 - 8;
}

}  // namespace

void install_fault_handler() {
  static thread_local bool is_installed = false;
  if (is_installed) return;
  is_installed = true;
  stack_t stack{};
  stack.ss_size = kHandlerStackBytes;
  stack.ss_sp = new char[kHandlerStackBytes];  // for as long as the OS thread may fault
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace hostcuda
