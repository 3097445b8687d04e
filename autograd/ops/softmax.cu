// Threads: a warp per row of up to 1024 columns, a thread block per wider row; a thread processes every Group-th vector
// of 16 bytes, or every Group-th element if size or alignment do not allow vectors.
// Memory: forward reads x three times and writes y, backward reads dy and y twice and writes dx; all but the first time
// from a cache. One exponential per element in a pass; memory-bound.
// Sums over a row have a fixed order, so the bits depend on the shape and the alignment only.
#include "autograd/ops/softmax.hpp"

#include <cmath>

#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"

namespace heed::cuda {
namespace {

constexpr int64_t kWidestRowOfAWarp = 1024;
constexpr int kThreads = 256;

// Number of threads that process a row, Group: kWarp or kThreads.
template <int Group>
__device__ __forceinline__ int64_t row_of_group() {
  return static_cast<int64_t>(blockIdx.x) * (kThreads / Group) + threadIdx.x / Group;
}

// Every thread of the group receives the result.
template <int Group, class Operation>
__device__ __forceinline__ float group_reduce(float value, float identity, Operation operation) {
  if constexpr (Group == kWarp) {
    return warp_reduce(value, operation);
  } else {
    return block_reduce<Group>(value, identity, operation);
  }
}

// Calls f(column) for each vector of a row that this thread processes.
template <int Group, int N, class F>
__device__ __forceinline__ void for_each_column(int64_t columns, F f) {
  for (int64_t column = static_cast<int64_t>(threadIdx.x % Group) * N; column < columns; column += Group * N) f(column);
}

template <class T>
struct SoftmaxRows {
  T* y;
  const T* x;
  int64_t rows, columns;
  bool log;
};

template <int Group, int N, class T>
__global__ void __launch_bounds__(kThreads) softmax_forward_kernel(SoftmaxRows<T> p) {
  const int64_t row = row_of_group<Group>();
  if (row >= p.rows) return;
  const T* x = p.x + row * p.columns;
  float max = -INFINITY, sum = 0;
  for_each_column<Group, N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column);
#pragma unroll
    for (int i = 0; i < N; ++i) max = Max{}(max, xs.value[i]);
  });
  max = group_reduce<Group>(max, -INFINITY, Max{});
  for_each_column<Group, N>(p.columns, [&](int64_t column) {
    const Floats<N> xs = load<N>(x + column);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += expf(xs.value[i] - max);
  });
  sum = group_reduce<Group>(sum, 0.0f, Sum{});
  const float factor = 1.0f / sum, log_sum = logf(sum);
  for_each_column<Group, N>(p.columns, [&](int64_t column) {
    Floats<N> xs = load<N>(x + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float centered = xs.value[i] - max;
      xs.value[i] = p.log ? centered - log_sum : expf(centered) * factor;
    }
    store<N>(p.y + row * p.columns + column, xs);
  });
}

// dx may be y.
template <class T>
struct DifferentiateRows {
  T* dx;
  bool add;
  const T *dy, *y;
  int64_t rows, columns;
  bool log;
};

template <int Group, int N, class T>
__global__ void __launch_bounds__(kThreads) softmax_backward_kernel(DifferentiateRows<T> p) {
  const int64_t row = row_of_group<Group>();
  if (row >= p.rows) return;
  const T *dy = p.dy + row * p.columns, *y = p.y + row * p.columns;
  T* dx = p.dx + row * p.columns;
  float sum = 0;
  for_each_column<Group, N>(p.columns, [&](int64_t column) {
    const Floats<N> dys = load<N>(dy + column), ys = load<N>(y + column);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += p.log ? dys.value[i] : dys.value[i] * ys.value[i];
  });
  sum = group_reduce<Group>(sum, 0.0f, Sum{});
  for_each_column<Group, N>(p.columns, [&](int64_t column) {
    const Floats<N> dys = load<N>(dy + column), ys = load<N>(y + column);
    Floats<N> out = p.add ? load<N>(dx + column) : Floats<N>{};
#pragma unroll
    for (int i = 0; i < N; ++i) {
      out.value[i] += p.log ? dys.value[i] - expf(ys.value[i]) * sum : ys.value[i] * (dys.value[i] - sum);
    }
    store<N>(dx + column, out);
  });
}

// Calls f with the thread group for rows of this width, and the number of elements that these addresses allow to move
// at a time, each as a std::integral_constant.
template <class T, class F, class... Address>
void visit_groups(int64_t columns, F f, const Address*... addresses) {
  constexpr int kVector = kPerVector<T>;
  const auto with_width = [&](auto width) {
    columns > kWidestRowOfAWarp ? f(std::integral_constant<int, kThreads>{}, width)
                                : f(std::integral_constant<int, kWarp>{}, width);
  };
  can_move<kVector>(columns, addresses...) ? with_width(std::integral_constant<int, kVector>{})
                                           : with_width(std::integral_constant<int, 1>{});
}

}  // namespace

void softmax_forward(Context&, const SoftmaxForward& p) {
  if (p.x.shape.numel() == 0) return;
  visit_elements("softmax", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const SoftmaxRows<T> rows{.y = elements<T>(p.y),
                              .x = elements<T>(p.x),
                              .rows = p.x.shape.rows(),
                              .columns = p.x.shape.columns(),
                              .log = p.log};
    visit_groups<T>(
        rows.columns,
        [&](auto group, auto width) {
          launch(softmax_forward_kernel<group(), width(), T>, {blocks_for(rows.rows, kThreads / group()), kThreads},
                 rows);
        },
        rows.x, rows.y);
  });
}

void softmax_backward(Context&, const SoftmaxBackward& p) {
  if (!p.dx || p.y.shape.numel() == 0) return;
  visit_elements("softmax", p.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const DifferentiateRows<T> rows{.dx = elements<T>(p.dx.ref),
                                    .add = p.dx.add,
                                    .dy = elements<T>(p.dy),
                                    .y = elements<T>(p.y),
                                    .rows = p.y.shape.rows(),
                                    .columns = p.y.shape.columns(),
                                    .log = p.log};
    visit_groups<T>(
        rows.columns,
        [&](auto group, auto width) {
          launch(softmax_backward_kernel<group(), width(), T>, {blocks_for(rows.rows, kThreads / group()), kThreads},
                 rows);
        },
        rows.dy, rows.y, rows.dx);
  });
}

}  // namespace heed::cuda
