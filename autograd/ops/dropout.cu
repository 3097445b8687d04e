// Threads: each processes 8 adjacent elements of a row, one Philox counter, in thread blocks of 256.
// Memory: x (and residual) read once, y written once; the mask is computed, not stored. Work: 2.5 wide (32 x 32 -> 64
// bit) integer multiplications per element, which take about half as long as the bf16 memory traffic on an H200. The
// bits do not depend on the order of threads.
#include "autograd/ops/dropout.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kElements = 8;  // of a thread: the 16-bit halves of one Philox counter

struct Mask {
  RandomStream random;
  uint32_t threshold;
  float scale;
  int64_t first_row, columns;
};

// N: elements moved at a time, kElements if rows are whole and aligned vectors of them, or 1.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(int64_t groups, int64_t groups_per_row, Mask mask, T* y, const T* x, const T* residual) {
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (group >= groups) return;
  const int64_t row = group / groups_per_row, first = (group - row * groups_per_row) * kElements;
  const PhiloxWords words = mask.random.words(static_cast<uint64_t>(mask.first_row * groups_per_row + group));
  const auto pick = [&](int i, float value, float rest) {
    return words.half(i) >= mask.threshold ? value * mask.scale + rest : rest;
  };
  if constexpr (N == kElements) {
    const int64_t offset = group * N;  // row * mask.columns + first; the product tells nvcc that it is aligned
    Floats<N> out = load<N>(x + offset), rest{};
    if (residual != nullptr) rest = load<N>(residual + offset);
#pragma unroll
    for (int i = 0; i < N; ++i) out.value[i] = pick(i, out.value[i], rest.value[i]);
    store<N>(y + offset, out);
  } else {
    const int64_t offset = row * mask.columns + first;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if (first + i >= mask.columns) break;
      const float rest = residual != nullptr ? to_float(residual[offset + i]) : 0.0f;
      y[offset + i] = from_float<T>(pick(i, to_float(x[offset + i]), rest));
    }
  }
}

}  // namespace

void apply_dropout(Context&, const Dropout& p) {
  const int64_t columns = p.x.shape.columns(), rows = p.x.shape.rows();
  if (columns == 0 || rows == 0) return;
  const Mask mask{.random = p.random,
                  .threshold = dropout_threshold(p.p),
                  .scale = static_cast<float>(dropout_scale(p.p)),
                  .first_row = p.first_row,
                  .columns = columns};
  visit_elements("dropout", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = elements<T>(p.y);
    const T *x = elements<T>(p.x), *residual = elements<T>(p.residual);
    const auto run = [&](auto kernel) {
      const int64_t groups_per_row = ceil_divide(columns, kElements), groups = rows * groups_per_row;
      launch(kernel, {blocks_for(groups, kThreads), kThreads}, groups, groups_per_row, mask, y, x, residual);
    };
    can_move<kElements>(columns, y, x, residual) ? run(dropout_kernel<kElements, T>) : run(dropout_kernel<1, T>);
  });
}

}  // namespace heed::cuda
