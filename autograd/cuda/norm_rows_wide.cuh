// The parameters of the kernels of norm_rows.cuh, and the same norms of rows that do not fit in registers: each pass
// reads the row again, usually from L2.
//
// Threads: a thread block of 512 per row; for dweight and dbias, a thread per vector of columns and chunk of rows.
// Memory: forward reads x three times and writes y; backward reads dy and x three times and writes dx. Bound by L2.
// The bits depend on the shape only.
#pragma once

#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/reduce.cuh"

namespace heed::cuda {

// Where a row begins. A layout whose offsets are multiples of `columns` keeps the alignment of vectors.
struct DenseRows {
  int64_t columns;
  __host__ __device__ int64_t offset(int64_t row) const { return row * columns; }
};

// Kernel parameters. weight nullptr: 1; bias nullptr: 0; mean: only if Centered. dweight, dbias: partial sums, one row
// per chunk, or nullptr; dx may be x, or nullptr.
template <class T, class Layout>
struct NormalizeRows {
  T* y;
  float *mean, *rstd;
  const T* x;
  const float *weight, *bias;
  Layout layout;
  int64_t rows, columns;
  float eps;
};
template <class T, class Layout>
struct DifferentiateRows {
  T* dx;
  bool add;
  float *dweight, *dbias;
  const T *dy, *x;
  const float *weight, *mean, *rstd;
  Layout layout;
  RowChunks chunks;
  int64_t columns;
};

constexpr int kWideThreads = 512;

// Calls f(column) for each vector of a row that this thread processes.
template <int N, class F>
__device__ __forceinline__ void for_each_column(int64_t columns, F f) {
  for (int64_t column = static_cast<int64_t>(threadIdx.x) * N; column < columns; column += kWideThreads * N) f(column);
}

__device__ __forceinline__ float gain(const float* weight, int64_t column) {
  return weight == nullptr ? 1.0f : weight[column];
}
template <bool Centered, class T, class Layout>
__device__ __forceinline__ float mean_of(const DifferentiateRows<T, Layout>& p, int64_t row) {
  if constexpr (Centered) return p.mean[row];
  return 0;
}

template <int N, bool Centered, class T, class Layout>
__global__ void __launch_bounds__(kWideThreads) norm_forward_wide_kernel(NormalizeRows<T, Layout> p) {
  const int64_t row = blockIdx.x;
  const T* x = p.x + p.layout.offset(row);
  float mean = 0;
  if constexpr (Centered) {
    float sum = 0;
    for_each_column<N>(p.columns, [&](int64_t column) {
      const Floats<N> xs = load<N>(x + column);
#pragma unroll
      for (int i = 0; i < N; ++i) sum += xs.value[i];
    });
    mean = block_reduce<kWideThreads>(sum, 0.0f, Sum{}) / static_cast<float>(p.columns);
  }
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
      xs.value[i] = fmaf((xs.value[i] - mean) * rstd, gain(p.weight, column + i), bias);
    }
    store<N>(p.y + p.layout.offset(row) + column, xs);
  });
  if (threadIdx.x == 0) {
    if constexpr (Centered) p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

// dweight and dbias. Must run before dx is written, which may overwrite x.
template <int N, bool Centered, class T, class Layout>
__global__ void __launch_bounds__(kWideThreads) norm_sum_wide_kernel(DifferentiateRows<T, Layout> p) {
  const int64_t vector = static_cast<int64_t>(blockIdx.x) * kWideThreads + threadIdx.x, column = vector * N;
  const int64_t chunk = blockIdx.y;
  if (column >= p.columns) return;
  const int64_t end = p.chunks.begin(chunk + 1);
  Floats<N> dweight{}, dbias{};
  for (int64_t row = p.chunks.begin(chunk); row < end; ++row) {
    const int64_t at = p.layout.offset(row) + column;
    const Floats<N> xs = load<N>(p.x + at), dys = load<N>(p.dy + at);
    const float mean = mean_of<Centered>(p, row), rstd = p.rstd[row];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      dweight.value[i] += dys.value[i] * ((xs.value[i] - mean) * rstd);
      dbias.value[i] += dys.value[i];
    }
  }
  // The product with N tells nvcc that the vectors are aligned.
  const int64_t to = (chunk * (p.columns / N) + vector) * N;
  if (p.dweight != nullptr) store<N>(p.dweight + to, dweight);
  if (p.dbias != nullptr) store<N>(p.dbias + to, dbias);
}

template <int N, bool Centered, class T, class Layout>
__global__ void __launch_bounds__(kWideThreads) norm_backward_wide_kernel(DifferentiateRows<T, Layout> p) {
  const int64_t row = blockIdx.x, offset = p.layout.offset(row);
  const T *x = p.x + offset, *dy = p.dy + offset;
  const float mean = mean_of<Centered>(p, row), rstd = p.rstd[row];
  float sum_g = 0, sum_gx = 0;
  for_each_column<N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column), dys = load<N>(dy + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float g = dys.value[i] * gain(p.weight, column + i);
      if constexpr (Centered) sum_g += g;
      sum_gx += g * ((xs.value[i] - mean) * rstd);
    }
  });
  float mean_g = 0;
  if constexpr (Centered) mean_g = block_reduce<kWideThreads>(sum_g, 0.0f, Sum{}) / static_cast<float>(p.columns);
  const float mean_gx = block_reduce<kWideThreads>(sum_gx, 0.0f, Sum{}) / static_cast<float>(p.columns);
  T* to = p.dx + offset;
  for_each_column<N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column), dys = load<N>(dy + column);
    Floats<N> dx = p.add ? load<N>(to + column) : Floats<N>{};
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float normalized = (xs.value[i] - mean) * rstd, g = dys.value[i] * gain(p.weight, column + i);
      dx.value[i] += rstd * (g - mean_g - normalized * mean_gx);
    }
    store<N>(to + column, dx);
  });
}

template <int N, bool Centered, class T, class Layout>
void run_backward_wide(const DifferentiateRows<T, Layout>& p) {
  if (p.dweight != nullptr || p.dbias != nullptr) {
    launch(norm_sum_wide_kernel<N, Centered, T, Layout>,
           {{blocks_for(p.columns, kWideThreads * N), static_cast<unsigned>(p.chunks.count)}, kWideThreads}, p);
  }
  if (p.dx == nullptr || p.chunks.rows == 0) return;
  launch(norm_backward_wide_kernel<N, Centered, T, Layout>, {blocks_for(p.chunks.rows, 1), kWideThreads}, p);
}

template <bool Centered, class T, class Layout>
void normalize_wide(const NormalizeRows<T, Layout>& p) {
  constexpr int kVector = kPerVector<T>;
  const bool wide = can_move<kVector>(p.columns, p.x, p.y);
  launch(
      wide ? norm_forward_wide_kernel<kVector, Centered, T, Layout> : norm_forward_wide_kernel<1, Centered, T, Layout>,
      {blocks_for(p.rows, 1), kWideThreads}, p);
}
template <bool Centered, class T, class Layout>
void differentiate_wide(const DifferentiateRows<T, Layout>& p) {
  constexpr int kVector = kPerVector<T>;
  can_move<kVector>(p.columns, p.x, p.dy, p.dx) ? run_backward_wide<kVector, Centered>(p)
                                                : run_backward_wide<1, Centered>(p);
}

}  // namespace heed::cuda
