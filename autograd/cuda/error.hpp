// Calls of the CUDA libraries, checked.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace heed::cuda {

// Throws DeviceError unless the call succeeded: what was done, what CUDA says of it, and what to do where that is
// known.
void check(cudaError_t error, const char* what);
void check(cublasStatus_t status, const char* what);

}  // namespace heed::cuda
