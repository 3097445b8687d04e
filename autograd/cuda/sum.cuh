// The sum of f(x[i]) over all elements, in f64 and in an order that depends only on their number and the alignment of
// x.
//
// Threads: up to 1024 thread blocks of 256 sum equal contiguous chunks; a thread adds every 256th vector of its block's
// chunk. A second kernel with a single thread block adds the sums of the blocks. Memory: x is read once; memory-bound.
#pragma once

#include <algorithm>

#include "autograd/core/context.hpp"
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"

namespace heed::cuda {

constexpr int kSumThreads = 256, kSumFinishThreads = 1024;
constexpr int64_t kMostSumBlocks = kSumFinishThreads;

// `stretch`: vectors per thread block. The last block also sums the elements after the last whole vector.
template <int N, class F, class T>
__global__ void __launch_bounds__(kSumThreads) sum_kernel(double* sums, int64_t n, int64_t stretch, F f, const T* x) {
  const int64_t vectors = n / N, begin = blockIdx.x * stretch, end = min(begin + stretch, vectors);
  double sum = 0;
#pragma unroll 4
  for (int64_t vector = begin + threadIdx.x; vector < end; vector += kSumThreads) {
    const Floats<N> values = load<N>(x + vector * N);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += f(values.value[i]);
  }
  if (blockIdx.x == gridDim.x - 1 && vectors * N + threadIdx.x < n) sum += f(to_float(x[vectors * N + threadIdx.x]));
  sum = block_reduce<kSumThreads>(sum, 0.0, Sum{});
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

template <class Finish>
__global__ void __launch_bounds__(kSumFinishThreads) finish_sum_kernel(const double* sums, int64_t blocks, Finish f) {
  const double mine = threadIdx.x < blocks ? sums[threadIdx.x] : 0.0;
  const double sum = block_reduce<kSumFinishThreads>(mine, 0.0, Sum{});
  if (threadIdx.x == 0) f(sum);
}

// f: a functor double(float); finish: a functor that one thread calls with the sum. Without elements the sum is 0.
template <class F, class Finish, class T>
void sum_in_f64(const Context& context, int64_t n, F f, const T* x, Finish finish) {
  constexpr int64_t kVector = kPerVector<T>, kLeast = 4 * kSumThreads;  // minimum number of vectors per thread block
  const int64_t vectors = ceil_divide(n, kVector);
  const int64_t stretch = std::max(kLeast, ceil_divide(vectors, kMostSumBlocks)),
                blocks = ceil_divide(vectors, stretch);
  const Scratch<double> sums(context, blocks);
  if (n > 0) {
    const LaunchShape shape{static_cast<unsigned>(blocks), kSumThreads};
    // If x is not aligned, load single elements, the same number of them per thread block.
    can_move<kVector>(0, x) ? launch(sum_kernel<kVector, F, T>, shape, sums.data(), n, stretch, f, x)
                            : launch(sum_kernel<1, F, T>, shape, sums.data(), n, stretch * kVector, f, x);
  }
  launch(finish_sum_kernel<Finish>, {1, kSumFinishThreads}, sums.data(), blocks, finish);
}

}  // namespace heed::cuda
