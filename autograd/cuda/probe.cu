// Checks whether this build has code that the device can run.
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

cudaError_t find_code_for_device() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, probe_kernel);
}

}  // namespace heed::cuda
