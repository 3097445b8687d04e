// Error checks for calls of the CUDA libraries.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace heed::cuda {

// Throws DeviceError unless the call succeeded. The message says what failed, the error text of CUDA, and a remedy if
// one is known.
void check(cudaError_t error, const char* what);
void check(cublasStatus_t status, const char* what);

}  // namespace heed::cuda
