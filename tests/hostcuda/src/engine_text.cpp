// What reports say of threads and places.
#include "src/engine.hpp"
#include "src/report.hpp"
#include "src/symbols.hpp"

namespace hostcuda {

std::string describe(const Site& site) { return file_of(site.file_name()) + format(":%u", site.line()); }

std::string Multiprocessor::where() const {
  return "kernel " + function_name(launch->call.kernel) + format(", block (%u,%u,%u)", block.x, block.y, block.z);
}

std::string Multiprocessor::where(const Thread& thread) const {
  return where() + format(", thread (%u,%u,%u)", thread.index.x, thread.index.y, thread.index.z);
}

// "threads 0-31 wait at __syncthreads a.cu:7; threads 32-63 have exited"
std::string Multiprocessor::who_waits() const {
  constexpr size_t kEnough = 400;
  const auto alike = [](const Thread& a, const Thread& b) {
    if (a.state != b.state) return false;
    const bool waits = a.state == Thread::State::at_barrier || a.state == Thread::State::at_warp_operation;
    return !waits || (a.operation == b.operation && same_site(a.site, b.site));
  };
  std::string text;
  for (unsigned first = 0; first < count_;) {
    const Thread& thread = *threads_[first];
    unsigned end = first + 1;
    while (end < count_ && alike(thread, *threads_[end])) ++end;
    if (text.size() > kEnough) return text + "; ...";
    text += format("%sthreads %u-%u ", text.empty() ? "" : "; ", first, end - 1);
    switch (thread.state) {
      case Thread::State::done:
        text += "have exited";
        break;
      case Thread::State::ready:
        text += "run";
        break;
      default:
        text += format("wait at %s %s", thread.operation, hostcuda::describe(thread.site).c_str());
    }
    first = end;
  }
  return text;
}

void Multiprocessor::refuse_barrier(const std::string& why) {
  const Thread& thread = *self;
  report("barrier", where(thread) + ": " + thread.operation + " " + hostcuda::describe(thread.site) + " " + why + ": " +
                        who_waits());
  abandon_block();
}

void Multiprocessor::refuse_warp_operation(const std::string& why) {
  const Thread& thread = *self;
  report("warp", where(thread) + ": " + thread.operation + " " + hostcuda::describe(thread.site) + ": " + why);
  abandon_block();
}

}  // namespace hostcuda
