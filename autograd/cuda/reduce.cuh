// Reductions in a fixed order: sum and maximum over the threads of a warp or a thread block, which propagate NaN; and
// the sum over all elements of an array.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "autograd/core/context.hpp"
#include "autograd/cuda/element.cuh"
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

// The sum of f(x[i]) over all elements, in f64 and in an order that depends only on their number and the alignment of
// x.
//
// Threads: up to 1024 thread blocks of 256 sum equal contiguous chunks; a thread adds every 256th vector of its block's
// chunk. A second kernel with a single thread block adds the sums of the blocks. Memory: x is read once; memory-bound.
constexpr int kArraySumThreads = 256, kArraySumFinishThreads = 1024;
constexpr int64_t kMostSumBlocks = kArraySumFinishThreads;

// `chunk_vectors`: vectors per thread block. The last block also sums the elements after the last whole vector.
template <int N, class F, class T>
__global__ void __launch_bounds__(kArraySumThreads)
    sum_kernel(double* sums, int64_t n, int64_t chunk_vectors, F f, const T* x) {
  const int64_t vectors = n / N, begin = blockIdx.x * chunk_vectors, end = min(begin + chunk_vectors, vectors);
  double sum = 0;
#pragma unroll 4
  for (int64_t vector = begin + threadIdx.x; vector < end; vector += kArraySumThreads) {
    const Floats<N> values = load<N>(x + vector * N);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += f(values.value[i]);
  }
  if (blockIdx.x == gridDim.x - 1 && vectors * N + threadIdx.x < n) sum += f(to_float(x[vectors * N + threadIdx.x]));
  sum = block_reduce<kArraySumThreads>(sum, 0.0, Sum{});
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class Finish>
__global__ void __launch_bounds__(kArraySumFinishThreads)
    finish_sum_kernel(const double* sums, int64_t blocks, Finish f) {
  const double mine = threadIdx.x < blocks ? sums[threadIdx.x] : 0.0;
  const double sum = block_reduce<kArraySumFinishThreads>(mine, 0.0, Sum{});
  if (threadIdx.x == 0) f(sum);
}

// f: a functor double(float); finish: a functor that one thread calls with the sum. Without elements the sum is 0.
template <class F, class Finish, class T>
void sum_in_f64(const Context& context, int64_t n, F f, const T* x, Finish finish) {
  constexpr int64_t kVector = kPerVector<T>,
                    kLeast = 4 * kArraySumThreads;  // minimum number of vectors per thread block
  const int64_t vectors = ceil_divide(n, kVector);
  const int64_t chunk_vectors = std::max(kLeast, ceil_divide(vectors, kMostSumBlocks)),
                blocks = ceil_divide(vectors, chunk_vectors);
  const Scratch<double> sums(context, blocks);
  if (n > 0) {
    const LaunchShape shape{static_cast<unsigned>(blocks), kArraySumThreads};
    // If x is not aligned, load single elements, the same number of them per thread block.
    can_move<kVector>(0, x) ? launch(sum_kernel<kVector, F, T>, shape, sums.data(), n, chunk_vectors, f, x)
                            : launch(sum_kernel<1, F, T>, shape, sums.data(), n, chunk_vectors * kVector, f, x);
  }
  launch(finish_sum_kernel<Finish>, {1, kArraySumFinishThreads}, sums.data(), blocks, finish);
}

}  // namespace heed::cuda
