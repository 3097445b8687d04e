// The addresses that device memory may have.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hostcuda {

constexpr size_t kArenaBytes = size_t{256} << 30;  // addresses, not memory: none is used twice

uintptr_t arena_begin();
uintptr_t reserve(size_t bytes, int protection);  // zeros, and memory only where it is written

// Reports faults of kernels that only the processor sees, and of host code that touches device memory.
void install_fault_handler();

}  // namespace hostcuda
