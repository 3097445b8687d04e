// The CUDA runtime of a process: one device, one stream in which all work is ordered but NCCL's, and the errors of its
// calls.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace heed::cuda {

// The first call initialises the runtime. Throws DeviceError with status().problem if no device can be used.
cudaStream_t stream();
cublasLtHandle_t blas();
int multiprocessors();
int capability_major();

// Throws DeviceError unless the call succeeded. The message says what failed, the error text of CUDA, and a remedy if
// one is known.
void check(cudaError_t error, const char* what);
void check(cublasStatus_t status, const char* what);

// Whether the kernels of this build can run on the current device: cudaSuccess, or cudaErrorNoKernelImageForDevice if
// there is code for other architectures only (probe.cu).
cudaError_t find_code_for_device();

// For synchronize() (token_check.cu). queue_fault() queues a copy of the fault of the token checks to the host;
// throw_if_fault(), after the host has waited, throws ValueError as the CPU does if there is one, and clears it.
void queue_fault();
void throw_if_fault();

}  // namespace heed::cuda
