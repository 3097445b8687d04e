// How the layer_norm kernels divide a row over threads: a thread group (a warp or a thread block) keeps it in
// registers.
#pragma once

#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/layer_norm.hpp"

namespace heed::cuda {

// A thread group of Group threads (a warp or a thread block) keeps rows of up to Group * Held elements in registers:
// each thread Held of them, in vectors of N adjacent elements. Thread blocks of warps have 8 thread groups, to be worth
// launching.
template <int Group, int Held, int N>
struct RowPlan {
  static constexpr int kGroup = Group, kWidth = N, kVectors = Held / N;
  static constexpr int kMostColumns = Group * Held;
  static constexpr int kGroups = Group == kWarp ? 8 : 1, kThreads = Group * kGroups;
};

// The longest row that is kept in registers; longer ones are read several times, see layer_norm_wide.cu.
constexpr int64_t kWidestHeldRow = 512 * 16;

// Calls f with the smallest plan that fits a row.
template <int N, class F>
void visit_row_plan(int64_t columns, F f) {
  if (columns <= 32 * 8) return f(RowPlan<32, 8, N>{});
  if (columns <= 32 * 16) return f(RowPlan<32, 16, N>{});
  if (columns <= 128 * 8) return f(RowPlan<128, 8, N>{});
  if (columns <= 128 * 16) return f(RowPlan<128, 16, N>{});
  if (columns <= 512 * 8) return f(RowPlan<512, 8, N>{});
  f(RowPlan<512, 16, N>{});
}

// Calls f(v, column) for each vector of a row that this thread holds.
template <class Plan, class F>
__device__ __forceinline__ void for_each_vector(int columns, F f) {
  const int lane = static_cast<int>(threadIdx.x) % Plan::kGroup;
#pragma unroll
  for (int v = 0; v < Plan::kVectors; ++v) {
    const int column = (v * Plan::kGroup + lane) * Plan::kWidth;
    if (column < columns) f(v, column);
  }
}

// The elements of a row that a thread holds: in the storage dtype, and as floats.
template <class Plan, class T>
struct HeldRow {
  Vector<T, Plan::kWidth> vector[Plan::kVectors];

  __device__ __forceinline__ void fetch(const T* row, int columns) {
    for_each_vector<Plan>(columns, [&](int v, int column) { vector[v] = cuda::fetch<Plan::kWidth>(row + column); });
  }
};
template <class Plan>
struct HeldFloats {
  Floats<Plan::kWidth> vector[Plan::kVectors] = {};

  // Loads element by element, as parameters need not be aligned. nullptr: zeros.
  __device__ __forceinline__ void load_parameters(const float* parameters, int columns) {
    if (parameters == nullptr) return;
    for_each_vector<Plan>(columns, [&](int v, int column) {
#pragma unroll
      for (int i = 0; i < Plan::kWidth; ++i) vector[v].value[i] = parameters[column + i];
    });
  }
};

// Sums over the threads of a thread group; each of them gets the result. All threads of the thread block must call it.
template <class Plan, int Count>
__device__ __forceinline__ void sum_over_group(float (&sums)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) sums[i] = warp_reduce(sums[i], Sum{});
  if constexpr (Plan::kGroup > kWarp) {
    constexpr int kWarps = Plan::kGroup / kWarp;
    __shared__ float partial[kWarps][Count];
    const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
    __syncthreads();  // all threads are done with the previous `partial`
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (lane == i) partial[warp][i] = sums[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      sums[i] = partial[0][i];
#pragma unroll
      for (int other = 1; other < kWarps; ++other) sums[i] += partial[other][i];
    }
  }
}

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

// layer_norm_wide.cu: rows that do not fit in registers.
template <class T>
void normalize_wide(const NormalizeRows<T>& p);
template <class T>
void differentiate_wide(const DifferentiateRows<T>& p);

}  // namespace heed::cuda
