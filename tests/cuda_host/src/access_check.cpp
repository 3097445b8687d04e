#include <sys/mman.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tests/cuda_host/src/cell.hpp"
#include "tests/cuda_host/src/device_memory.hpp"
#include "tests/cuda_host/src/observe.hpp"
#include "tests/cuda_host/src/report.hpp"
#include "tests/cuda_host/src/symbols.hpp"

namespace hostcuda {

thread_local constinit Moment now{};

Cell* Shadow::reserve_cells(size_t count) {
  return reinterpret_cast<Cell*>(reserve(count * sizeof(Cell), PROT_READ | PROT_WRITE));
}

void Shadow::forget(uintptr_t page, size_t bytes) {
  const size_t first = (page - begin_) / 4, count = bytes / 4;
  madvise(words_ + first, count * sizeof(Cell), MADV_DONTNEED);  // zeros again
  madvise(halves_ + first, count * sizeof(Cell), MADV_DONTNEED);
  madvise(odd_bytes_ + 2 * first, 2 * count * sizeof(Cell), MADV_DONTNEED);
}

namespace {

constexpr size_t kReportsOfALaunch = 10;

uint64_t access_count = 0;
uintptr_t arena = 0;  // nothing while there is no device memory
size_t arena_bytes = 0;
Shadow device_shadow;
thread_local Shadow dynamic_shadow, static_shadow;

// Where an access stands in the code, in 32 bits.
uint32_t place_in_image(const void* place) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(place) - image().base);
}
std::string line_of(uint32_t place) { return source_line(reinterpret_cast<const void*>(image().base + place)); }

[[noreturn]] void leaves_memory(const void* address, size_t bytes, Access kind, const void* place) {
  const char* verb = kind == Access::read ? "reads" : kind == Access::atomic ? "updates" : "writes";
  report("bounds", multiprocessor->where(*self) + format(": %s %zu bytes at ", verb, bytes) + describe(address) + " [" +
                       source_line(place) + "]");
  multiprocessor->abandon_block();
}

// Of each pair of lines once in a launch.
void report_problem(const Problem& problem, uintptr_t address, uint32_t place) {
  static std::set<std::pair<uint32_t, uint32_t>> reported;
  static uint32_t reported_launch = 0;
  if (std::exchange(reported_launch, now.first_of_launch) != now.first_of_launch) reported.clear();
  if (reported.size() >= kReportsOfALaunch || !reported.insert({place, problem.other_place}).second) return;
  std::string text = multiprocessor->where(*self) + ": " + problem.what;
  if (problem.other != 0) {
    const bool several = (problem.other & kReaders) != 0;
    text += several ? " several threads" : format(" thread %u", thread_of(problem.other));
    if (interval_of(problem.other) < now.first_of_block) text += " of another block";
    text += " [" + line_of(problem.other_place) + "]";
  }
  report(problem.kind, text + ": " + describe(reinterpret_cast<const void*>(address)) + " [" + line_of(place) + "]");
}

template <Access kind, bool is_shared>
void check_cells(Shadow& shadow, const void* address, size_t bytes, const void* place) {
  const uint32_t in_image = place_in_image(place);
  Problem first;
  uintptr_t first_address = 0;
  shadow.visit<kind != Access::read>(reinterpret_cast<uintptr_t>(address), bytes, [&](Cell& cell, uintptr_t at) {
    if (!is_shared && interval_of(cell.write) == kNoMemory) [[unlikely]] {
      leaves_memory(address, bytes, kind, place);
    }
    Problem problem;
    if constexpr (kind == Access::read) {
      problem = read_cell<is_shared>(cell, in_image);
    } else {
      problem = write_cell<kind, is_shared>(cell, in_image);
    }
    if (problem.kind != nullptr && first.kind == nullptr) [[unlikely]] {
      first = problem;
      first_address = at;
    }
  });
  if (first.kind != nullptr) [[unlikely]]
    report_problem(first, first_address, in_image);
}

// Which bytes of the executable's thread-local memory belong to __shared__ arrays.
const std::vector<uint8_t>& is_shared_array() {
  static const auto* map = [] {
    auto* bytes = new std::vector<uint8_t>(image().thread_local_bytes, 0);
    for (const Symbol& array : shared_arrays()) {
      std::fill_n(bytes->begin() + static_cast<std::ptrdiff_t>(array.begin), array.bytes, uint8_t{1});
    }
    return bytes;
  }();
  return *map;
}

bool is_argument(const void* address) {
  const KernelCall& call = multiprocessor->launch->call;
  const auto begin = reinterpret_cast<uintptr_t>(call.arguments.get());
  return reinterpret_cast<uintptr_t>(address) - begin < call.argument_bytes;
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

template <Access kind>
void check_shared_or_foreign(const void* address, size_t bytes, const void* place) {
  Multiprocessor& processor = *multiprocessor;
  const auto* begin = static_cast<const unsigned char*>(address);
  if (processor.arena_owns(address)) {
    if (begin < processor.shared_begin || begin + bytes > processor.shared_end) {
      leaves_memory(address, bytes, kind, place);
    }
    if (dynamic_shadow.is_empty()) {
      dynamic_shadow.cover(reinterpret_cast<uintptr_t>(processor.shared_arena), Multiprocessor::kSharedBytes);
    }
    check_cells<kind, true>(dynamic_shadow, address, bytes, place);
    return;
  }
  static thread_local const uintptr_t thread_local_memory = thread_local_begin();
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - thread_local_memory;
  if (offset < image().thread_local_bytes && is_shared_array()[offset] != 0) {
    if (static_shadow.is_empty()) static_shadow.cover(thread_local_memory, image().thread_local_bytes + 4);
    check_cells<kind, true>(static_shadow, address, bytes, place);
    return;
  }
  // Constants, variables of the device, arguments.
  if (reinterpret_cast<uintptr_t>(address) - image().begin < image().end - image().begin) return;
  if (!is_argument(address)) touches_foreign(address, place);
}

template <Access kind>
inline void check(const void* address, size_t bytes, const void* place) {
  ++access_count;
  if (reinterpret_cast<uintptr_t>(address) - arena < arena_bytes) {
    check_cells<kind, false>(device_shadow, address, bytes, place);
  } else if (!self->fiber.owns(address)) {
    check_shared_or_foreign<kind>(address, bytes, place);
  }
}

}  // namespace

void observe_read(const void* address, size_t bytes, const void* place) {
  if (self != nullptr) check<Access::read>(address, bytes, place);
}
void observe_write(const void* address, size_t bytes, const void* place) {
  if (self != nullptr) check<Access::write>(address, bytes, place);
}

void check_access(Thread& thread, const void* address, size_t bytes, Access kind, const void* place) {
  // The last lane to arrive makes the accesses of its whole warp.
  const Moment before = now;
  Thread* const running = std::exchange(self, &thread);
  enter_moment(*multiprocessor, thread);
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
  now = before;
}

uint64_t take_access_count() { return std::exchange(access_count, 0); }

void memory_allocated(const void* begin, size_t bytes) {
  if (device_shadow.is_empty()) {
    arena = arena_begin();
    arena_bytes = kArenaBytes;
    device_shadow.cover(arena, arena_bytes);
  }
  device_shadow.visit<true>(reinterpret_cast<uintptr_t>(begin), bytes,
                            [](Cell& cell, uintptr_t) { cell.write = kNeverWritten; });
}

void memory_freed(const void* page, size_t bytes) { device_shadow.forget(reinterpret_cast<uintptr_t>(page), bytes); }

void memory_written(const void* begin, size_t bytes) {
  device_shadow.visit<true>(reinterpret_cast<uintptr_t>(begin), bytes, [](Cell& cell, uintptr_t) {
    cell.write = kHost;
    cell.read = 0;
  });
}

const void* never_written(const void* begin, size_t bytes) {
  uintptr_t found = 0;
  device_shadow.visit<false>(reinterpret_cast<uintptr_t>(begin), bytes, [&](Cell& cell, uintptr_t address) {
    if (found == 0 && interval_of(cell.write) <= kNeverWritten) found = address;
  });
  return reinterpret_cast<const void*>(found);
}

void memory_copied(void* to, const void* from, size_t bytes) {
  memory_written(to, bytes);
  if (never_written(from, bytes) == nullptr) return;
  for (size_t i = 0; i < bytes; ++i) {  // what was never written stays that in the copy
    if (never_written(static_cast<const char*>(from) + i, 1) == nullptr) continue;
    device_shadow.visit<true>(reinterpret_cast<uintptr_t>(to) + i, 1,
                              [](Cell& cell, uintptr_t) { cell.write = kNeverWritten; });
  }
}

}  // namespace hostcuda
