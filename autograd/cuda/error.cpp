#include "autograd/cuda/error.hpp"

#include <string>

#include "autograd/core/check.hpp"
#include "autograd/core/cuda_backend.hpp"

namespace heed::cuda {
namespace {

std::string advice(cudaError_t error) {
  switch (error) {
    case cudaErrorNoKernelImageForDevice:
      return fmt::format("; this heed has code for {}: build it with CMAKE_CUDA_ARCHITECTURES for this card",
                         status().architectures);
    case cudaErrorInsufficientDriver:
      return "; the driver is older than this CUDA needs: install a newer one, or set train.device = \"cpu\"";
    case cudaErrorMemoryAllocation:
      return "; lower train.micro_batch_size, or set train.recompute = true";
    default:
      return {};
  }
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) [[likely]] {
    return;
  }
  cudaGetLastError();  // clear the error, or the next call would report it
  throw DeviceError(
      fmt::format("CUDA: {}: {} ({}){}", what, cudaGetErrorString(error), cudaGetErrorName(error), advice(error)));
}

void check(cublasStatus_t status, const char* what) {
  require<DeviceError>(status == CUBLAS_STATUS_SUCCESS, "cuBLASLt: {}: {}", what, cublasLtGetStatusString(status));
}

}  // namespace heed::cuda
