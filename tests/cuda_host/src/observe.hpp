// The check build: what the instrumented code of kernels calls for each load and store.
#pragma once

#include "tests/cuda_host/src/access.hpp"

namespace hostcuda {

// Does nothing outside of kernels and for the thread's own stack.
void observe_read(const void* address, size_t bytes, const void* place);
void observe_write(const void* address, size_t bytes, const void* place);

}  // namespace hostcuda
