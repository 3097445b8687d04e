// The only function that launches kernels, the computation of grid sizes, and dynamic shared memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "autograd/core/check.hpp"
#include "autograd/cuda/runtime.hpp"

namespace heed::cuda {

struct LaunchShape {
  dim3 grid, block;
  int64_t shared_bytes = 0;  // dynamic shared memory
};

constexpr int kWarp = 32;
constexpr int64_t kLargestGrid = 0x7FFFFFFF;  // in x; 65535 in y and z

// The number of thread blocks that cover n elements; throws ShapeError above kLargestGrid. At least one, so that a grid
// with more dimensions is not empty; n == 0 must be handled before. Kernels that could need more than kLargestGrid use
// a grid-stride loop.
inline unsigned blocks_for(int64_t n, int64_t per_block) {
  const int64_t blocks = (n + per_block - 1) / per_block;
  require<ShapeError>(blocks <= kLargestGrid, "{} elements are too many for one CUDA kernel", n);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks);
}

template <class... Parameters>
void launch(void (*kernel)(Parameters...), const LaunchShape& shape, std::type_identity_t<Parameters>... arguments) {
  constexpr int64_t kWithoutAsking = 48 * 1024;
  if (shape.shared_bytes > kWithoutAsking) {
    check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes)),
        "ask for shared memory");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream();
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch a kernel");
}

// How many thread blocks of a kernel without dynamic shared memory can be resident on the device.
template <class... Parameters>
int64_t resident_blocks(void (*kernel)(Parameters...), int threads) {
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0), "query the occupancy of a kernel");
  return int64_t{blocks} * multiprocessors();
}

// Dynamic shared memory in a kernel: auto& tiles = dynamic_shared<Tiles>(); the launch must request sizeof(Tiles)
// bytes.
template <class T>
__device__ __forceinline__ T& dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return *reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  return *static_cast<T*>(hostcuda::dynamic_shared());
#endif
}

}  // namespace heed::cuda
