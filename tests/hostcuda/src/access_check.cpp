#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "src/check.hpp"
#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/symbols.hpp"

namespace hostcuda {

thread_local constinit Moment now{};
Watched device_watch{};
thread_local constinit Watched dynamic_watch{};
uint64_t access_count = 0;
const uintptr_t code_begin = image().base;

namespace {

thread_local constinit Watched static_watch{};

// Which bytes of the executable's thread-local memory belong to __shared__ arrays.
const std::vector<uint8_t> is_in_shared_array = [] {
  std::vector<uint8_t> bytes(image().thread_local_bytes, 0);
  for (const Symbol& array : shared_arrays()) {
    std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(array.begin), array.bytes, uint8_t{1});
  }
  return bytes;
}();

bool is_argument(const void* address) {
  const KernelCall& call = multiprocessor->launch->call;
  const auto begin = reinterpret_cast<uintptr_t>(call.arguments.get());
  return reinterpret_cast<uintptr_t>(address) - begin < call.argument_bytes;
}

// Constants and variables of the device.
bool is_in_image(const void* address) {
  return reinterpret_cast<uintptr_t>(address) - image().begin < image().end - image().begin;
}

[[noreturn]] void touches_foreign(const void* address, const void* place) {
  for (unsigned i = 0; i < multiprocessor->thread_count(); ++i) {
    if (!multiprocessor->thread(i).fiber.owns(address)) continue;
    report("bounds", multiprocessor->where(*self) + format(": touches a local variable of thread %u [", i) +
                         source_line(place) + "]");
    multiprocessor->abandon_block();
  }
  report("host", multiprocessor->where(*self) + ": touches " + describe(address) + " [" + source_line(place) + "]");
  multiprocessor->abandon_block();
}

}  // namespace

void enter_thread(const Multiprocessor& processor, const Thread& thread) {
  const uint64_t epoch = processor.warps[thread.warp].epoch;
  now.stamp = processor.interval | epoch << 32 | uint64_t{thread.linear} << 48;
  now.interval = processor.interval;
  now.first_of_block = processor.first_interval;
  now.first_of_launch = processor.launch->first_interval;
}

void enter_block(const Multiprocessor& processor) {
  if (static_watch.shadow.is_empty()) {
    static_watch.begin = thread_local_begin();
    static_watch.bytes = image().thread_local_bytes;
    static_watch.shadow.cover(static_watch.begin, static_watch.bytes);
    dynamic_watch.shadow.cover(reinterpret_cast<uintptr_t>(processor.shared_arena), Multiprocessor::kSharedBytes);
  }
  dynamic_watch.begin = reinterpret_cast<uintptr_t>(processor.shared_begin);
  dynamic_watch.bytes = processor.launch->shared_bytes;
}

template <Access kind>
void check_elsewhere(const void* address, size_t bytes, const void* place) {
  if (static_watch.owns(address) &&
      is_in_shared_array[reinterpret_cast<uintptr_t>(address) - static_watch.begin] != 0) {
    check_cells<kind, true>(static_watch.shadow, address, bytes, place);
  } else if (multiprocessor->arena_owns(address)) {
    Finding(address, bytes, kind, place).add(Fault::no_memory, {}, 0);
  } else if (!is_in_image(address) && !is_argument(address)) {
    touches_foreign(address, place);
  }
}
template void check_elsewhere<Access::read>(const void*, size_t, const void*);
template void check_elsewhere<Access::write>(const void*, size_t, const void*);

void check_access(Thread& thread, const void* address, size_t bytes, Access kind, const void* place) {
  // The last lane to arrive makes the accesses of its whole warp.
  Thread* const running = std::exchange(self, &thread);
  if (running != &thread) enter_thread(*multiprocessor, thread);
  switch (kind) {
    case Access::read:
      check<Access::read>(address, bytes, place);
      break;
    case Access::write:
      check<Access::write>(address, bytes, place);
      break;
    case Access::atomic:
      check<Access::atomic>(address, bytes, place);
      break;
    case Access::begin_copy:
      check<Access::begin_copy>(address, bytes, place);
      break;
    case Access::end_copy:
      check<Access::end_copy>(address, bytes, place);
      break;
  }
  self = running;
  if (running != &thread) enter_thread(*multiprocessor, *running);
}

const bool kSeesAllAccesses = true;
bool sees_all_accesses() { return true; }

uint64_t take_access_count() { return std::exchange(access_count, 0); }

void memory_allocated(const void* begin, size_t bytes) {
  if (device_watch.bytes == 0) {
    device_watch.begin = arena_begin();
    device_watch.bytes = kArenaBytes;
    device_watch.shadow.cover(device_watch.begin, kArenaBytes);
  }
  device_watch.shadow.visit<true>(reinterpret_cast<uintptr_t>(begin), bytes,
                                  [](Cell& cell, uintptr_t) { cell.write = kNeverWritten; });
}

void memory_freed(const void* page, size_t bytes) {
  device_watch.shadow.forget(reinterpret_cast<uintptr_t>(page), bytes);
}

void memory_written(const void* begin, size_t bytes) {
  device_watch.shadow.visit<true>(reinterpret_cast<uintptr_t>(begin), bytes, [](Cell& cell, uintptr_t) {
    cell.write = kHost;
    cell.read = 0;
  });
}

const void* never_written(const void* begin, size_t bytes) {
  uintptr_t found = 0;
  device_watch.shadow.visit<false>(reinterpret_cast<uintptr_t>(begin), bytes, [&](Cell& cell, uintptr_t address) {
    if (found == 0 && interval_of(cell.write) <= kNeverWritten) found = address;
  });
  return reinterpret_cast<const void*>(found);
}

void memory_copied(void* to, const void* from, size_t bytes) {
  const bool is_complete = never_written(from, bytes) == nullptr;
  memory_written(to, bytes);
  for (size_t i = 0; i < bytes && !is_complete; ++i) {  // what was never written stays that in the copy
    if (never_written(static_cast<const char*>(from) + i, 1) == nullptr) continue;
    device_watch.shadow.visit<true>(reinterpret_cast<uintptr_t>(to) + i, 1,
                                    [](Cell& cell, uintptr_t) { cell.write = kNeverWritten; });
  }
}

}  // namespace hostcuda
