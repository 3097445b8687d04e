// The parameters of the layer norm kernels, and layer norm of rows that do not fit in registers: each pass reads the
// row again, usually from L2.
//
// Threads: a thread block of 512 per row; for dweight and dbias, a thread per vector of columns and chunk of rows.
// Memory: forward reads x three times and writes y; backward reads dy and x three times and writes dx. Bound by L2.
// The bits depend on the shape only.
#pragma once

#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/layer_norm.hpp"

namespace heed::cuda {

// Kernel parameters. dweight, dbias: partial sums, one row per chunk, or nullptr; dx may be x, or nullptr.
template <class T>
struct NormalizeRows {
  T* y;
  float *mean, *rstd;
  const T* x;
  const float *weight, *bias;
  int64_t rows, columns;
  float eps;
};
template <class T>
struct DifferentiateRows {
  T* dx;
  bool add;
  float *dweight, *dbias;
  const T *dy, *x;
  const float *weight, *mean, *rstd;
  RowChunks chunks;
  int64_t columns;
};

constexpr int kWideThreads = 512;

// Calls f(column) for each vector of a row that this thread processes.
template <int N, class F>
__device__ __forceinline__ void for_each_column(int64_t columns, F f) {
  for (int64_t column = static_cast<int64_t>(threadIdx.x) * N; column < columns; column += kWideThreads * N) f(column);
}

template <int N, class T>
__global__ void __launch_bounds__(kWideThreads) layer_norm_forward_wide_kernel(NormalizeRows<T> p) {
  const int64_t row = blockIdx.x;
  const T* x = p.x + row * p.columns;
  float sum = 0;
  for_each_column<N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += xs.value[i];
  });
  const float mean = block_reduce<kWideThreads>(sum, 0.0f, Sum{}) / static_cast<float>(p.columns);
  float squares = 0;
  for_each_column<N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += (xs.value[i] - mean) * (xs.value[i] - mean);
  });
  const float variance = block_reduce<kWideThreads>(squares, 0.0f, Sum{}) / static_cast<float>(p.columns);
  const float rstd = 1.0f / sqrtf(variance + p.eps);
  for_each_column<N>(p.columns, [&](int64_t column) {
    Floats<N> xs = load<N>(x + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float bias = p.bias == nullptr ? 0.0f : p.bias[column + i];
      xs.value[i] = fmaf((xs.value[i] - mean) * rstd, p.weight[column + i], bias);
    }
    store<N>(p.y + row * p.columns + column, xs);
  });
  if (threadIdx.x == 0) {
    p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

// dweight and dbias. Must run before dx is written, which may overwrite x.
template <int N, class T>
__global__ void __launch_bounds__(kWideThreads) sum_wide_kernel(DifferentiateRows<T> p) {
  const int64_t column = (static_cast<int64_t>(blockIdx.x) * kWideThreads + threadIdx.x) * N, chunk = blockIdx.y;
  if (column >= p.columns) return;
  const int64_t end = p.chunks.begin(chunk + 1);
  Floats<N> dweight{}, dbias{};
  for (int64_t row = p.chunks.begin(chunk); row < end; ++row) {
    const Floats<N> xs = load<N>(p.x + row * p.columns + column), dys = load<N>(p.dy + row * p.columns + column);
    const float mean = p.mean[row], rstd = p.rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      dweight.value[i] += dys.value[i] * ((xs.value[i] - mean) * rstd);
      dbias.value[i] += dys.value[i];
    }
  }
  if (p.dweight != nullptr) store<N>(p.dweight + chunk * p.columns + column, dweight);
  if (p.dbias != nullptr) store<N>(p.dbias + chunk * p.columns + column, dbias);
}

template <int N, class T>
__global__ void __launch_bounds__(kWideThreads) layer_norm_backward_wide_kernel(DifferentiateRows<T> p) {
  const int64_t row = blockIdx.x;
  const T *x = p.x + row * p.columns, *dy = p.dy + row * p.columns;
  const float mean = p.mean[row], rstd = p.rstd[row];
  float sum_g = 0, sum_gx = 0;
  for_each_column<N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column), dys = load<N>(dy + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float g = dys.value[i] * p.weight[column + i];
      sum_g += g;
      sum_gx += g * ((xs.value[i] - mean) * rstd);
    }
  });
  const float mean_g = block_reduce<kWideThreads>(sum_g, 0.0f, Sum{}) / static_cast<float>(p.columns);
  const float mean_gx = block_reduce<kWideThreads>(sum_gx, 0.0f, Sum{}) / static_cast<float>(p.columns);
  T* to = p.dx + row * p.columns;
  for_each_column<N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column), dys = load<N>(dy + column);
    Floats<N> dx = p.add ? load<N>(to + column) : Floats<N>{};
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float normalized = (xs.value[i] - mean) * rstd, g = dys.value[i] * p.weight[column + i];
      dx.value[i] += rstd * (g - mean_g - normalized * mean_gx);
    }
    store<N>(to + column, dx);
  });
}

template <int N, class T>
void run_backward_wide(const DifferentiateRows<T>& p) {
  if (p.dweight != nullptr || p.dbias != nullptr) {
    launch(sum_wide_kernel<N, T>,
           {{blocks_for(p.columns, kWideThreads * N), static_cast<unsigned>(p.chunks.count)}, kWideThreads}, p);
  }
  if (p.dx == nullptr || p.chunks.rows == 0) return;
  launch(layer_norm_backward_wide_kernel<N, T>, {blocks_for(p.chunks.rows, 1), kWideThreads}, p);
}

template <class T>
void normalize_wide(const NormalizeRows<T>& p) {
  constexpr int kVector = kPerVector<T>;
  const bool wide = can_move<kVector>(p.columns, p.x, p.y);
  launch(wide ? layer_norm_forward_wide_kernel<kVector, T> : layer_norm_forward_wide_kernel<1, T>,
         {blocks_for(p.rows, 1), kWideThreads}, p);
}
template <class T>
void differentiate_wide(const DifferentiateRows<T>& p) {
  constexpr int kVector = kPerVector<T>;
  can_move<kVector>(p.columns, p.x, p.dy, p.dx) ? run_backward_wide<kVector>(p) : run_backward_wide<1>(p);
}

}  // namespace heed::cuda
