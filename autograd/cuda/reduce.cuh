// Sum and maximum over the threads of a warp or a thread block, in a fixed order; both propagate NaN.
#pragma once

#include <cuda_runtime.h>

#include "autograd/cuda/launch.cuh"

namespace heed::cuda {

constexpr unsigned kFullWarp = 0xFFFFFFFFu;

struct Sum {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;
  }
};

// Reduces over each group of Width adjacent lanes; every lane receives the result of its group.
template <int Width = kWarp, class T, class Operation>
__device__ __forceinline__ T warp_reduce(T value, Operation operation) {
#pragma unroll
  for (int offset = Width / 2; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

// Reduces over a one-dimensional thread block of Threads; every thread receives the result. All threads must call it.
template <int Threads, class T, class Operation>
__device__ __forceinline__ T block_reduce(T value, T identity, Operation operation) {
  static_assert(Threads % kWarp == 0 && Threads <= 1024);
  constexpr int kWarps = Threads / kWarp;
  __shared__ T partial[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  value = warp_reduce(value, operation);
  __syncthreads();  // threads may still read `partial` of a previous call
  if (lane == 0) partial[warp] = value;
  __syncthreads();
  return warp_reduce(lane < kWarps ? partial[lane] : identity, operation);
}

}  // namespace heed::cuda
