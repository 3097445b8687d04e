// The check build compiles kernels with -fsanitize=thread,alignment,bounds, and links these functions instead of the
// runtimes of those sanitizers.
#include <cstring>

#include "src/check.hpp"
#include "src/device_memory.hpp"
#include "src/report.hpp"
#include "src/symbols.hpp"

namespace hostcuda {
namespace {

// -fsanitize=alignment says so where the compiler sees the pointer; this where the access is made.
[[noreturn]] void is_misaligned(const void* address, size_t bytes, const void* place) {
  report("bounds", multiprocessor->where(*self) + format(": misaligned access of %zu bytes to ", bytes) +
                       describe(address) + " [" + source_line(place) + "]");
  multiprocessor->abandon_block();
}

template <Access kind, size_t bytes>
inline void check_aligned(const void* address, const void* place) {
  if (self == nullptr) return;  // code of the host
  if (reinterpret_cast<uintptr_t>(address) % (bytes < 8 ? bytes : 8) != 0) is_misaligned(address, bytes, place);
  check<kind, bytes == 4>(address, bytes, place);
}
template <Access kind>
inline void check_any(const void* address, size_t bytes, const void* place) {
  if (self != nullptr && bytes != 0) check<kind>(address, bytes, place);
}

struct Place {  // as the compiler lays it down
  const char* file;
  uint32_t line, column;
};
void found(const Place& place, const std::string& what) {
  const std::string who = self == nullptr ? "host code" : multiprocessor->where(*self);
  report("bounds", who + ": " + what + " [" + file_of(place.file) + format(":%u]", place.line));
  if (self != nullptr) multiprocessor->abandon_block();
}

}  // namespace
}  // namespace hostcuda

using hostcuda::Access;

#define HOSTCUDA_PLACE __builtin_return_address(0)
#define HOSTCUDA_HOOKS(bytes)                                                                                         \
  void __tsan_read##bytes(void* address) { hostcuda::check_aligned<Access::read, bytes>(address, HOSTCUDA_PLACE); }   \
  void __tsan_write##bytes(void* address) { hostcuda::check_aligned<Access::write, bytes>(address, HOSTCUDA_PLACE); } \
  void __tsan_unaligned_read##bytes(void* address) {                                                                  \
    hostcuda::check_any<Access::read>(address, bytes, HOSTCUDA_PLACE);                                                \
  }                                                                                                                   \
  void __tsan_unaligned_write##bytes(void* address) {                                                                 \
    hostcuda::check_any<Access::write>(address, bytes, HOSTCUDA_PLACE);                                               \
  }

extern "C" {

HOSTCUDA_HOOKS(1)
HOSTCUDA_HOOKS(2)
HOSTCUDA_HOOKS(4)
HOSTCUDA_HOOKS(8)
HOSTCUDA_HOOKS(16)
void __tsan_read_range(void* address, size_t bytes) {
  hostcuda::check_any<Access::read>(address, bytes, HOSTCUDA_PLACE);
}
void __tsan_write_range(void* address, size_t bytes) {
  hostcuda::check_any<Access::write>(address, bytes, HOSTCUDA_PLACE);
}

// hostcuda_redirect.h gives calls of memcpy and its like these names.
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  hostcuda::check_any<Access::read>(from, bytes, HOSTCUDA_PLACE);
  hostcuda::check_any<Access::write>(to, bytes, HOSTCUDA_PLACE);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  hostcuda::check_any<Access::read>(from, bytes, HOSTCUDA_PLACE);
  hostcuda::check_any<Access::write>(to, bytes, HOSTCUDA_PLACE);
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) {
  hostcuda::check_any<Access::write>(to, bytes, HOSTCUDA_PLACE);
  return std::memset(to, value, bytes);
}

void __ubsan_handle_type_mismatch_v1(hostcuda::Place* place, uintptr_t address) {
  hostcuda::found(*place, "misaligned access to " + hostcuda::describe(reinterpret_cast<const void*>(address)));
}
void __ubsan_handle_out_of_bounds(hostcuda::Place* place, uintptr_t index) {
  hostcuda::found(*place, hostcuda::format("index %td is outside of its array", static_cast<std::ptrdiff_t>(index)));
}

// What the host code of a .cu file may bring: constructors, virtual functions, shared_ptr.
void __tsan_init() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

#define HOSTCUDA_FETCH(bits, operation)                                                                            \
  uint##bits##_t __tsan_atomic##bits##_fetch_##operation(volatile uint##bits##_t* to, uint##bits##_t value, int) { \
    return __atomic_fetch_##operation(to, value, __ATOMIC_SEQ_CST);                                                \
  }

#define HOSTCUDA_ATOMICS(bits)                                                                              \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* from, int) {                     \
    return __atomic_load_n(from, __ATOMIC_SEQ_CST);                                                         \
  }                                                                                                         \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* to, uint##bits##_t value, int) {                \
    __atomic_store_n(to, value, __ATOMIC_SEQ_CST);                                                          \
  }                                                                                                         \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* to, uint##bits##_t value, int) {   \
    return __atomic_exchange_n(to, value, __ATOMIC_SEQ_CST);                                                \
  }                                                                                                         \
  bool __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t* to, uint##bits##_t* expected, \
                                                     uint##bits##_t desired, int, int) {                    \
    return __atomic_compare_exchange_n(to, expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);   \
  }                                                                                                         \
  HOSTCUDA_FETCH(bits, add)                                                                                 \
  HOSTCUDA_FETCH(bits, sub)

HOSTCUDA_ATOMICS(8)
HOSTCUDA_ATOMICS(32)
HOSTCUDA_ATOMICS(64)
}
