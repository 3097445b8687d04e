// Blocks run one after another on one OS thread, so an atomic is a read and a write that the checks know to be one.
#include "src/access.hpp"
#include "src/engine.hpp"

namespace hostcuda {
namespace {

template <class T, class Update>
T update(T* address, Update next, const void* place) {
  check_access(*self, address, sizeof(T), Access::atomic, place);
  const T old = *address;
  *address = next(old);
  return old;
}

}  // namespace
}  // namespace hostcuda

#define HOSTCUDA_ATOMIC(T, name, next)                                               \
  T name(T* address, T value) {                                                      \
    return hostcuda::update(                                                         \
        address, [value](T old) -> T { return next; }, __builtin_return_address(0)); \
  }

HOSTCUDA_ATOMIC(int, atomicAdd, static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value)))
HOSTCUDA_ATOMIC(unsigned, atomicAdd, old + value)
HOSTCUDA_ATOMIC(unsigned long long, atomicAdd, old + value)
HOSTCUDA_ATOMIC(int, atomicMax, old < value ? value : old)
HOSTCUDA_ATOMIC(unsigned, atomicMax, old < value ? value : old)
HOSTCUDA_ATOMIC(unsigned long long, atomicMax, old < value ? value : old)
HOSTCUDA_ATOMIC(int, atomicMin, value < old ? value : old)
HOSTCUDA_ATOMIC(unsigned, atomicMin, value < old ? value : old)
HOSTCUDA_ATOMIC(int, atomicOr, old | value)
HOSTCUDA_ATOMIC(unsigned, atomicOr, old | value)

int atomicExch(int* address, int value) {
  return hostcuda::update(
      address, [value](int) { return value; }, __builtin_return_address(0));
}
unsigned atomicExch(unsigned* address, unsigned value) {
  return hostcuda::update(
      address, [value](unsigned) { return value; }, __builtin_return_address(0));
}
int atomicCAS(int* address, int expected, int desired) {
  return hostcuda::update(
      address, [=](int old) { return old == expected ? desired : old; }, __builtin_return_address(0));
}
unsigned atomicCAS(unsigned* address, unsigned expected, unsigned desired) {
  return hostcuda::update(
      address, [=](unsigned old) { return old == expected ? desired : old; }, __builtin_return_address(0));
}
