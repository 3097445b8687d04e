#include "src/shared_memory.hpp"

#include <algorithm>
#include <cstring>

#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/symbols.hpp"

namespace hostcuda {
namespace {

constexpr size_t kAlignment = 128, kGuarded = 128;  // bytes before it that are looked at

unsigned char* guarded_begin(const Multiprocessor& processor) {
  const auto before = static_cast<size_t>(processor.shared_begin - processor.shared_arena);
  return processor.shared_begin - std::min(before, kGuarded);
}

}  // namespace

void poison_shared(Multiprocessor& processor) {
  const size_t bytes = processor.launch->shared_bytes;
  unsigned char* arena_end = processor.shared_arena + Multiprocessor::kSharedBytes;
  processor.shared_begin = arena_end - (bytes + kAlignment - 1) / kAlignment * kAlignment;  // up to the guard
  processor.shared_end = processor.shared_begin + bytes;
  unsigned char* begin = guarded_begin(processor);
  std::memset(begin, kCanary, static_cast<size_t>(processor.shared_begin - begin));
  std::memset(processor.shared_begin, kPoison, bytes);
  std::memset(processor.shared_end, kCanary, static_cast<size_t>(arena_end - processor.shared_end));
  for (const Symbol& array : shared_arrays()) {
    std::memset(reinterpret_cast<void*>(thread_local_begin() + array.begin), kPoison, array.bytes);
  }
}

void check_shared(Multiprocessor& processor) {
  const auto look = [&](const unsigned char* begin, const unsigned char* end) {
    const unsigned char* changed = std::find_if(begin, end, [](unsigned char byte) { return byte != kCanary; });
    if (changed != end) report("bounds", processor.where() + ": wrote " + describe(changed));
  };
  look(guarded_begin(processor), processor.shared_begin);
  look(processor.shared_end, processor.shared_arena + Multiprocessor::kSharedBytes);
}

std::string describe_shared(const Multiprocessor& processor, const void* address) {
  if (processor.arena_owns(address)) {
    const auto offset = static_cast<const unsigned char*>(address) - processor.shared_begin;
    return format("byte %td of %zu bytes of dynamic shared memory", offset, processor.launch->shared_bytes);
  }
  const uintptr_t offset = reinterpret_cast<uintptr_t>(address) - thread_local_begin();
  const Symbol* array = find_symbol(shared_arrays(), offset);
  if (array == nullptr) return "";
  return format("byte %zu of shared %s (%zu bytes)", static_cast<size_t>(offset - array->begin),
                variable_name(*array).c_str(), array->bytes);
}

}  // namespace hostcuda
