// Does not include hostcuda_device.h, where these variables are constants.
#include "src/position.hpp"

extern thread_local constinit uint3 threadIdx, blockIdx, blockDim, gridDim;
thread_local constinit uint3 threadIdx{}, blockIdx{}, blockDim{}, gridDim{};

namespace hostcuda {

void set_thread(uint3 thread) { threadIdx = thread; }

void set_block(uint3 block, dim3 block_size, dim3 grid_size) {
  blockIdx = block;
  blockDim = {block_size.x, block_size.y, block_size.z};
  gridDim = {grid_size.x, grid_size.y, grid_size.z};
}

}  // namespace hostcuda
