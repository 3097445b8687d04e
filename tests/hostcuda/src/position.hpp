// threadIdx, blockIdx, blockDim and gridDim, which kernels see as constants.
#pragma once

#include <vector_types.h>

namespace hostcuda {

void set_thread(uint3 thread);
void set_block(uint3 block, dim3 block_size, dim3 grid_size);

}  // namespace hostcuda
