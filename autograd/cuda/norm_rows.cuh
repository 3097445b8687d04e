// LayerNorm (Centered) and RMSNorm of the rows of a tensor, for the kernels of layer_norm, rms_norm and qk_norm: the
// formulas are in ops/layer_norm.hpp and ops/rms_norm.hpp. RMSNorm has no mean and no bias.
//
// Threads: a warp keeps a row of up to 512 elements in registers, a thread block of 128 or 512 threads one of up to
// 2048 or 8192; longer rows: norm_rows_wide.cuh. The next row is prefetched during the computation of a row.
//
// Forward: at most as many thread blocks as can be resident; each thread group strides over rows. Weight and bias stay
// in registers or in the L1 cache. Memory: x read once, y written once, 4 bytes per element in bf16, 8 in f32, and 4
// bytes per row for each statistic. About 8 operations per element, memory-bound.
// Backward: a thread block processes a chunk of at least 16 rows and sums dweight and dbias of the chunk in registers;
// the partial sums of the chunks are added in order, see column_sum.cuh. Memory: dy and x read, dx written, 6 or 12
// bytes per element, and half a byte for each of the two partial sums, which usually stay in L2. About 15 operations
// per element, memory-bound.
// The bits depend on the shape, and on whether all tensors, including weight and bias, are aligned for vectors.
#pragma once

#include "autograd/cuda/norm_rows_wide.cuh"

namespace heed::cuda {

// A thread group of Group threads (a warp or a thread block) keeps rows of up to Group * Held elements in registers:
// each thread Held of them, in vectors of N adjacent elements. Thread blocks of warps have 8 thread groups, to be worth
// launching.
template <int Group, int Held, int N>
struct RowPlan {
  static constexpr int kGroup = Group, kHeld = Held, kWidth = N, kVectors = Held / N;
  static constexpr int kGroups = Group == kWarp ? 8 : 1, kThreads = Group * kGroups;
  // Forward: limits the registers so that at least 32 warps (16 without vectors) fit on a multiprocessor. Their
  // prefetched rows are about as many bytes in flight as memory needs for its full bandwidth.
  static constexpr int kForwardBlocks = (N == 1 ? 16 : Held == 8 ? 36 : 32) * kWarp / kThreads;
  // Backward: whether enough registers are free to load the gradient that dx is added to before the reductions.
  static constexpr bool kReadsEarly = N > 1 && (Held == 8 || (N == 8 && Group == kWarp));
};
// Backward: the thread blocks per multiprocessor that the registers must allow, as many as fit without spills.
// LayerNorm (Centered) needs more registers, because it also sums dbias.
template <class Plan, bool Centered>
constexpr int kBackwardBlocks = Plan::kWidth > 1 && Plan::kHeld == 8
                                    ? (Plan::kWidth == 8 && !Centered ? 24 : 20) * kWarp / Plan::kThreads
                                : Plan::kGroup == kWarp && (Plan::kWidth == 8 || !Centered) ? 2
                                                                                            : 1;

// The longest row that is kept in registers; longer ones are read several times, see norm_rows_wide.cuh.
constexpr int64_t kWidestHeldRow = 512 * 16;

// Calls f with the smallest plan that fits a row. Single elements (N = 1) are for rows that cannot be moved in vectors,
// which are rare: there one plan for each size of thread group is enough. The bits do not depend on Held.
template <int N, class F>
void visit_row_plan(int64_t columns, F f) {
  if constexpr (N > 1) {
    if (columns <= 32 * 8) return f(RowPlan<32, 8, N>{});
    if (columns > 32 * 16 && columns <= 128 * 8) return f(RowPlan<128, 8, N>{});
    if (columns > 128 * 16 && columns <= 512 * 8) return f(RowPlan<512, 8, N>{});
  }
  if (columns <= 32 * 16) return f(RowPlan<32, 16, N>{});
  if (columns <= 128 * 16) return f(RowPlan<128, 16, N>{});
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
// N adjacent parameters; all are `absent` if the pointer is null.
template <int N>
__device__ __forceinline__ Floats<N> parameters_at(const float* parameters, float absent, int column) {
  if (parameters != nullptr) return load<N>(parameters + column);
  Floats<N> result;
#pragma unroll
  for (float& value : result.value) value = absent;
  return result;
}
template <class Plan>
struct HeldFloats {
  Floats<Plan::kWidth> vector[Plan::kVectors] = {};

  __device__ __forceinline__ void load_parameters(const float* parameters, float absent, int columns) {
    for_each_vector<Plan>(
        columns, [&](int v, int column) { vector[v] = parameters_at<Plan::kWidth>(parameters, absent, column); });
  }
};

// A parameter vector, kept in registers, or read from the L1 cache for each row: 16 elements per thread in registers
// would leave room for fewer rows in flight.
template <class Plan, bool Kept = Plan::kHeld <= 8>
class RowParameters {
 public:
  __device__ __forceinline__ RowParameters(const float* parameters, float absent, int columns)
      : parameters_(parameters), absent_(absent) {
    if constexpr (Kept) kept_.load_parameters(parameters, absent, columns);
  }
  __device__ __forceinline__ Floats<Plan::kWidth> at(int v, int column) const {
    if constexpr (Kept) return kept_.vector[v];
    return parameters_at<Plan::kWidth>(parameters_, absent_, column);
  }

 private:
  const float* parameters_;
  float absent_;
  HeldFloats<Plan> kept_;
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

template <class Plan, bool Centered, class T, class Layout>
__global__ void __launch_bounds__(Plan::kThreads, Plan::kForwardBlocks)
    norm_forward_kernel(NormalizeRows<T, Layout> p) {
  constexpr int N = Plan::kWidth;
  const int columns = static_cast<int>(p.columns);
  const RowParameters<Plan> weights(p.weight, 1, columns), biases(Centered ? p.bias : nullptr, 0, columns);
  const int64_t step = static_cast<int64_t>(gridDim.x) * Plan::kGroups;
  int64_t row = static_cast<int64_t>(blockIdx.x) * Plan::kGroups + threadIdx.x / Plan::kGroup;
  HeldRow<Plan, T> next;
  if (row < p.rows) next.fetch(p.x + p.layout.offset(row), columns);
  for (; row < p.rows; row += step) {
    HeldFloats<Plan> x;
    [[maybe_unused]] float sum[1] = {0};
    for_each_vector<Plan>(columns, [&](int v, int) {
      x.vector[v] = to_floats(next.vector[v]);
      if constexpr (Centered) {
#pragma unroll
        for (int i = 0; i < N; ++i) sum[0] += x.vector[v].value[i];
      }
    });
    if (row + step < p.rows) next.fetch(p.x + p.layout.offset(row + step), columns);
    float mean = 0;
    if constexpr (Centered) {
      sum_over_group<Plan>(sum);
      mean = sum[0] / static_cast<float>(columns);
    }
    float squares[1] = {0};
    for_each_vector<Plan>(columns, [&](int v, int) {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        x.vector[v].value[i] -= mean;
        squares[0] += x.vector[v].value[i] * x.vector[v].value[i];
      }
    });
    sum_over_group<Plan>(squares);
    const float rstd = 1.0f / sqrtf(squares[0] / static_cast<float>(columns) + p.eps);
    for_each_vector<Plan>(columns, [&](int v, int column) {
      const Floats<N> weight = weights.at(v, column), bias = biases.at(v, column);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        float& value = x.vector[v].value[i];
        value = fmaf(value * rstd, weight.value[i], bias.value[i]);
      }
      store<N>(p.y + p.layout.offset(row) + column, x.vector[v]);
    });
    if (threadIdx.x % Plan::kGroup == 0) {
      if constexpr (Centered) p.mean[row] = mean;
      p.rstd[row] = rstd;
    }
  }
}

// Adds the sums of all thread groups of a thread block and writes them to the partial row of its chunk.
template <class Plan>
__device__ __forceinline__ void write_partial_row(float* partial, int columns, const HeldFloats<Plan>& sum) {
  if (partial == nullptr) return;
  constexpr int N = Plan::kWidth;
  partial += static_cast<int64_t>(blockIdx.x) * columns;
  if constexpr (Plan::kGroups == 1) {
    for_each_vector<Plan>(columns, [&](int v, int column) { store<N>(partial + column, sum.vector[v]); });
  } else {
    alignas(N * sizeof(float)) __shared__ float sums[Plan::kGroups][Plan::kGroup * Plan::kVectors * N];
    float* mine = sums[threadIdx.x / Plan::kGroup];
    __syncthreads();  // all threads are done with the previous `sums`
    for_each_vector<Plan>(columns, [&](int v, int column) { store<N>(mine + column, sum.vector[v]); });
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x); column < columns; column += Plan::kThreads) {
      float total = sums[0][column];
#pragma unroll
      for (int group = 1; group < Plan::kGroups; ++group) total += sums[group][column];
      partial[column] = total;
    }
  }
}

template <class Plan, bool Centered, class T, class Layout>
__global__ void __launch_bounds__(Plan::kThreads, kBackwardBlocks<Plan, Centered>)
    norm_backward_kernel(DifferentiateRows<T, Layout> p) {
  constexpr int N = Plan::kWidth;
  const int columns = static_cast<int>(p.columns);
  const RowParameters<Plan, Plan::kHeld <= 8 || N == 1> weights(p.weight, 1, columns);
  HeldFloats<Plan> dweight, dbias;
  const int64_t end = p.chunks.begin(blockIdx.x + 1);
  int64_t row = p.chunks.begin(blockIdx.x) + threadIdx.x / Plan::kGroup;
  HeldRow<Plan, T> next_x, next_dy;
  float next_mean = 0, next_rstd = 0;
  const auto fetch_row = [&](int64_t i) {
    next_x.fetch(p.x + p.layout.offset(i), columns);
    next_dy.fetch(p.dy + p.layout.offset(i), columns);
    if constexpr (Centered) next_mean = p.mean[i];
    next_rstd = p.rstd[i];
  };
  if (row < end) fetch_row(row);
  for (; row < end; row += Plan::kGroups) {
    const HeldRow<Plan, T> x = next_x, dy = next_dy;
    const float mean = next_mean, rstd = next_rstd;
    if (row + Plan::kGroups < end) fetch_row(row + Plan::kGroups);
    float sums[Centered ? 2 : 1] = {};  // of g * normalized, and of g = dy * weight
    for_each_vector<Plan>(columns, [&](int v, int column) {
      const Floats<N> xs = to_floats(x.vector[v]), dys = to_floats(dy.vector[v]), weight = weights.at(v, column);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float normalized = (xs.value[i] - mean) * rstd, g = dys.value[i] * weight.value[i];
        sums[0] += g * normalized;
        dweight.vector[v].value[i] += dys.value[i] * normalized;
        if constexpr (Centered) {
          sums[1] += g;
          dbias.vector[v].value[i] += dys.value[i];
        }
      }
    });
    if (p.dx == nullptr) continue;
    HeldRow<Plan, T> before;
    if (Plan::kReadsEarly && p.add) before.fetch(p.dx + p.layout.offset(row), columns);
    sum_over_group<Plan>(sums);
    const float mean_gx = sums[0] / static_cast<float>(columns);
    float mean_g = 0;
    if constexpr (Centered) mean_g = sums[1] / static_cast<float>(columns);
    for_each_vector<Plan>(columns, [&](int v, int column) {
      const Floats<N> xs = to_floats(x.vector[v]), dys = to_floats(dy.vector[v]), weight = weights.at(v, column);
      T* to = p.dx + p.layout.offset(row) + column;
      Floats<N> dx = !p.add ? Floats<N>{} : Plan::kReadsEarly ? to_floats(before.vector[v]) : load<N>(to);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float normalized = (xs.value[i] - mean) * rstd, g = dys.value[i] * weight.value[i];
        dx.value[i] += rstd * (g - mean_g - normalized * mean_gx);
      }
      store<N>(to, dx);
    });
  }
  write_partial_row<Plan>(p.dweight, columns, dweight);
  if constexpr (Centered) write_partial_row<Plan>(p.dbias, columns, dbias);
}

// Launches the forward kernel; there must be at least one row.
template <bool Centered, class T, class Layout>
void normalize_rows(const NormalizeRows<T, Layout>& p) {
  if (p.columns > kWidestHeldRow) return normalize_wide<Centered>(p);
  const auto run = [&](auto plan) {
    using Plan = decltype(plan);
    constexpr auto kKernel = norm_forward_kernel<Plan, Centered, T, Layout>;
    static const int64_t most = resident_blocks(kKernel, Plan::kThreads);
    const int64_t blocks = std::min<int64_t>(blocks_for(p.rows, Plan::kGroups), most);
    launch(kKernel, {static_cast<unsigned>(blocks), Plan::kThreads}, p);
  };
  can_move<kPerVector<T>>(p.columns, p.x, p.y, p.weight, p.bias) ? visit_row_plan<kPerVector<T>>(p.columns, run)
                                                                 : visit_row_plan<1>(p.columns, run);
}

// Launches the backward kernel.
template <bool Centered, class T, class Layout>
void differentiate_rows(const DifferentiateRows<T, Layout>& p) {
  if (p.columns > kWidestHeldRow) return differentiate_wide<Centered>(p);
  const auto run = [&](auto plan) {
    using Plan = decltype(plan);
    launch(norm_backward_kernel<Plan, Centered, T, Layout>, {static_cast<unsigned>(p.chunks.count), Plan::kThreads}, p);
  };
  can_move<kPerVector<T>>(p.columns, p.x, p.dy, p.dx, p.weight) ? visit_row_plan<kPerVector<T>>(p.columns, run)
                                                                : visit_row_plan<1>(p.columns, run);
}

}  // namespace heed::cuda
