// The CUDA runtime of a process: one device, and one stream in which all work is ordered.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "autograd/core/context.hpp"

namespace heed::cuda {

// The first call initialises the runtime. Throws DeviceError with status().problem if no device can be used.
cudaStream_t stream();
cublasLtHandle_t blas();
int multiprocessors();
int capability_major();

}  // namespace heed::cuda
