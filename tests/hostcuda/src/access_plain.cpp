#include "src/access.hpp"

#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/symbols.hpp"

namespace hostcuda {

const bool kSeesAllAccesses = false;
bool sees_all_accesses() { return false; }

void enter_thread(const Multiprocessor&, const Thread&) {}
void enter_block(const Multiprocessor&) {}

void check_access(Thread& thread, const void* address, size_t bytes, Access kind, const void* place) {
  const Multiprocessor& processor = *multiprocessor;
  const auto* begin = static_cast<const unsigned char*>(address);
  if (is_device(address)) {
    if (is_live(address, bytes)) return;
  } else if (processor.arena_owns(address)) {
    if (begin >= processor.shared_begin && begin + bytes <= processor.shared_end) return;
  } else {
    return;
  }
  const char* verb = kind == Access::read ? "reads" : kind == Access::atomic ? "updates" : "writes";
  report("bounds", processor.where(thread) + format(": %s %zu bytes at ", verb, bytes) + describe(address) + " [" +
                       source_line(place) + "]");
  multiprocessor->abandon_block();
}

uint64_t take_access_count() { return 0; }

void memory_allocated(const void*, size_t) {}
void memory_freed(const void*, size_t) {}
void memory_written(const void*, size_t) {}
void memory_copied(void*, const void*, size_t) {}
const void* never_written(const void*, size_t) { return nullptr; }

}  // namespace hostcuda
