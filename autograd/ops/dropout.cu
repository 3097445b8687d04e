// Threads: each processes 4 or 8 adjacent elements of a row, one or two Philox counters, in thread blocks of 256.
// Memory: x (and residual) read once, y written once; the mask is computed, not stored. Work: 5 wide (32 x 32 -> 64
// bit) integer multiplications per element, which take about as long as the bf16 memory traffic on an H200. The bits do
// not depend on the order of threads.
#include "autograd/ops/dropout.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWords = 4;  // random words of one Philox counter

struct Mask {
  RandomStream random;
  uint64_t threshold;
  float scale;
  int64_t first_row, columns;
};

// N adjacent elements from column `first` of a row on, N a multiple of kWords. Vector: all N exist and are aligned.
template <int N, bool Vector, class T>
__global__ void __launch_bounds__(kThreads)
    dropout_kernel(int64_t groups, int64_t groups_per_row, Mask mask, T* y, const T* x, const T* residual) {
  const int64_t group = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (group >= groups) return;
  const int64_t row = group / groups_per_row, first = (group - row * groups_per_row) * N;
  const int64_t padded = (mask.columns + kWords - 1) / kWords * kWords;
  const auto counter = static_cast<uint64_t>(((mask.first_row + row) * padded + first) / kWords);
  // Both forms are the same offset if columns is a multiple of N. The product with N tells nvcc that it is aligned.
  const int64_t offset = Vector ? group * N : row * mask.columns + first;
  const auto pick = [&](uint32_t word, float value, float rest) {
    return word >= mask.threshold ? value * mask.scale + rest : rest;
  };
  if constexpr (Vector) {
    Floats<N> out = load<N>(x + offset), rest{};
    if (residual != nullptr) rest = load<N>(residual + offset);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const uint32_t word = mask.random.words(counter + i / kWords).word[i % kWords];
      out.value[i] = pick(word, out.value[i], rest.value[i]);
    }
    store<N>(y + offset, out);
  } else {
    const PhiloxWords four = mask.random.words(counter);
    for (int i = 0; i < kWords && first + i < mask.columns; ++i) {
      const float rest = residual != nullptr ? to_float(residual[offset + i]) : 0.0f;
      y[offset + i] = from_float<T>(pick(four.word[i], to_float(x[offset + i]), rest));
    }
  }
}

}  // namespace

void apply_dropout(Context&, const Dropout& p) {
  const int64_t columns = p.x.shape.columns(), rows = p.x.shape.rows();
  if (columns == 0 || rows == 0) return;
  const Mask mask{.random = p.random,
                  .threshold = dropout_threshold(p.p),
                  .scale = p.p < 1 ? static_cast<float>(1 / (1 - p.p)) : 0.0f,
                  .first_row = p.first_row,
                  .columns = columns};
  visit_elements("dropout", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* y = elements<T>(p.y);
    const T *x = elements<T>(p.x), *residual = elements<T>(p.residual);
    const auto run = [&](auto kernel, int64_t per_thread) {
      const int64_t groups_per_row = ceil_divide(columns, per_thread), groups = rows * groups_per_row;
      launch(kernel, {blocks_for(groups, kThreads), kThreads}, groups, groups_per_row, mask, y, x, residual);
    };
    constexpr int kVector = kPerVector<T>;
    can_move<kVector>(columns, y, x, residual) ? run(dropout_kernel<kVector, true, T>, kVector)
                                               : run(dropout_kernel<kWords, false, T>, kWords);
  });
}

}  // namespace heed::cuda
