// Whether the kernels of this build can run on the current device.
#pragma once

#include <cuda_runtime_api.h>

namespace heed::cuda {

// cudaSuccess if they can; cudaErrorNoKernelImageForDevice if there is code for other architectures only.
cudaError_t find_code_for_device();

}  // namespace heed::cuda
