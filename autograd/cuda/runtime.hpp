// The CUDA side of a process: one device, one stream that all work goes to, in order.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "autograd/core/context.hpp"

namespace heed::cuda {

// Each makes what it gives when it is called for the first time. Throws DeviceError with status().problem where there
// is no device that can be used.
cudaStream_t stream();
cublasLtHandle_t blas();
int multiprocessors();
int capability_major();

}  // namespace heed::cuda
