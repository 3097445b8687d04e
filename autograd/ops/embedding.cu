// embedding forward and add_positions; for the gradient of the table see embedding_backward.cu.
#include "autograd/ops/embedding.hpp"

#include <bit>

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/fault.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kLargestGridY = 65535;

// Threads: one per vector of a row, rounded up to a power of two, at most a warp per row. Memory: each row is read,
// usually from L2, and written once. A token outside the table is reported to `check` and yields zeros.
template <int N, class T>
__global__ void __launch_bounds__(kThreads) embedding_kernel(T* y, const T* table, const int32_t* tokens, int64_t count,
                                                             int64_t columns, int lanes, TokenCheck check) {
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (kThreads / lanes) + threadIdx.x / lanes;
  if (i >= count) return;
  const int32_t token = tokens[i];
  const bool exists = token >= 0 && token < check.range.vocabulary;
  if (!exists && lane == 0) allows(check, token, i);
  const T* row = table + (exists ? token : 0) * columns;
  for (int64_t column = static_cast<int64_t>(lane) * N; column < columns; column += lanes * N) {
    Vector<T, N> vector = fetch<N>(row + column);
    if (!exists) vector = {};
    *reinterpret_cast<Vector<T, N>*>(y + i * columns + column) = vector;
  }
}

// Threads: one per vector of a batch element, for every gridDim.y-th batch element. Memory: x read, y written once.
template <int N, class T>
__global__ void __launch_bounds__(kThreads)
    add_positions_kernel(T* y, const T* x, const T* positions, int64_t batches, int64_t elements_of_batch) {
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (i >= elements_of_batch) return;
  const Floats<N> position = load<N>(positions + i);
  for (int64_t batch = blockIdx.y; batch < batches; batch += gridDim.y) {
    const int64_t at = batch * elements_of_batch + i;
    Floats<N> sum = load<N>(x + at);
#pragma unroll
    for (int j = 0; j < N; ++j) sum.value[j] += position.value[j];
    store<N>(y + at, sum);
  }
}

}  // namespace

void embedding_forward(Context&, const EmbeddingForward& p) {
  const int64_t count = p.tokens.shape.numel(), columns = p.table.shape[1];
  if (count == 0) return;
  visit_elements("embedding", p.table.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&](auto kernel, int64_t vectors) {
      const int lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(vectors, kWarp))));
      launch(kernel, {blocks_for(count, kThreads / lanes), kThreads}, elements<T>(p.y), elements<T>(p.table),
             elements<int32_t>(p.tokens), count, columns, lanes, token_check(p.token_range()));
    };
    constexpr int kVector = kPerVector<T>;
    can_move<kVector>(columns, elements<T>(p.y), elements<T>(p.table))
        ? run(embedding_kernel<kVector, T>, columns / kVector)
        : run(embedding_kernel<1, T>, columns);
  });
}

void add_positions_forward(Context&, const AddPositionsForward& p) {
  const int64_t batches = p.x.shape[0], elements_of_batch = p.x.shape[1] * p.x.shape[2];
  if (p.x.shape.numel() == 0) return;
  visit_elements("add_positions", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kVector = kPerVector<T>;
    T* y = elements<T>(p.y);
    const T *x = elements<T>(p.x), *positions = elements<T>(p.positions);
    const bool wide = can_move<kVector>(elements_of_batch, y, x, positions);
    const unsigned blocks = blocks_for(elements_of_batch, kThreads * (wide ? kVector : 1));
    launch(wide ? add_positions_kernel<kVector, T> : add_positions_kernel<1, T>,
           {{blocks, static_cast<unsigned>(std::min(batches, kLargestGridY))}, kThreads}, y, x, positions, batches,
           elements_of_batch);
  });
}

// dpositions: the column sums of dy as a matrix (B, T * C).
void add_positions_backward(Context& context, const AddPositionsBackward& p) {
  if (!p.dpositions) return;
  const int64_t batches = p.dy.shape[0], elements_of_batch = p.dy.shape[1] * p.dy.shape[2];
  const int64_t unused = p.dpositions.ref.shape.numel() - elements_of_batch;
  visit_elements("add_positions", p.dy.dtype, [&](auto zero) {
    column_sum(context, p.dpositions, elements<decltype(zero)>(p.dy), batches, elements_of_batch);
  });
  if (p.dpositions.add || unused == 0) return;
  fill(elements<float>(p.dpositions.ref) + elements_of_batch, 0, unused * static_cast<int64_t>(sizeof(float)));
}

}  // namespace heed::cuda
