// expand_dim: each thread writes 16 bytes of y, or one element if size or alignment do not allow it. Memory: y is
// written once (and read if it accumulates), x is read from cache after its first use.
//
// sum_dim: the n elements of a sum are split into chunks, whose number depends on n alone. A thread block adds up one
// chunk of 32 adjacent sums, 8 rows at a time, or of a single sum where the elements of one are adjacent. Several
// chunks leave partial sums, which are then summed in the same way. Memory: x is read once, and 4 bytes are written per
// chunk of a sum. The order of all additions is fixed by the shape. Both are memory-bound.
#include "autograd/ops/broadcast.hpp"

#include "autograd/cuda/column_sum.cuh"
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"

namespace heed::cuda {
namespace {

constexpr int kExpandThreads = 256;

// N divides the elements of y that are one element of x repeated, or a row of x.
template <int N, class Y, class X>
__global__ void __launch_bounds__(kExpandThreads)
    expand_kernel(Y* y, bool add, const X* x, int64_t count, int64_t n, int64_t inner, float factor) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kExpandThreads + threadIdx.x) * N;
  if (first >= count) return;
  Floats<N> value;
  if (inner == 1) {
    const float repeated = to_float(x[first / n]);
#pragma unroll
    for (int i = 0; i < N; ++i) value.value[i] = repeated;
  } else {
    const int64_t row = first / inner;
    value = load<N>(x + row / n * inner + (first - row * inner));
  }
  const Floats<N> before = add ? load<N>(y + first) : Floats<N>{};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    value.value[i] = add ? before.value[i] + factor * value.value[i] : factor * value.value[i];
  }
  store<N>(y + first, value);
}

constexpr int kSumThreads = 256, kSumColumns = kWarp, kSumSlots = kSumThreads / kSumColumns;
constexpr int64_t kRowsPerChunk = 256;

// Thread block (o, chunk): a thread adds every 256th element.
template <class Y, class X>
__global__ void __launch_bounds__(kSumThreads)
    sum_rows_kernel(Y* y, bool add, const X* x, RowChunks chunks, float divisor) {
  const int64_t o = blockIdx.x, chunk = blockIdx.y, end = chunks.begin(chunk + 1);
  float sum = 0;
  for (int64_t j = chunks.begin(chunk) + threadIdx.x; j < end; j += kSumThreads) {
    sum += to_float(x[o * chunks.rows + j]);
  }
  sum = block_reduce<kSumThreads>(sum, 0.0f, Sum{}) / divisor;
  if (threadIdx.x != 0) return;
  Y* to = y + chunk * gridDim.x + o;
  *to = from_float<Y>(add ? to_float(*to) + sum : sum);
}

// Thread block (o and 32 columns, chunk): a slot of 32 threads adds every 8th row, slot 0 then adds the slots in order.
template <class Y, class X>
__global__ void __launch_bounds__(kSumThreads)
    sum_columns_kernel(Y* y, bool add, const X* x, int64_t outer, RowChunks chunks, int64_t inner, float divisor) {
  __shared__ float sums[kSumSlots][kSumColumns];
  const int lane = static_cast<int>(threadIdx.x) % kSumColumns, slot = static_cast<int>(threadIdx.x) / kSumColumns;
  const int64_t tiles = (inner + kSumColumns - 1) / kSumColumns, o = blockIdx.x / tiles, chunk = blockIdx.y,
                column = (blockIdx.x - o * tiles) * kSumColumns + lane, end = chunks.begin(chunk + 1);
  float sum = 0;
  if (column < inner) {
    for (int64_t j = chunks.begin(chunk) + slot; j < end; j += kSumSlots) {
      sum += to_float(x[(o * chunks.rows + j) * inner + column]);
    }
  }
  sums[slot][lane] = sum;
  __syncthreads();
  if (slot != 0 || column >= inner) return;
#pragma unroll
  for (int other = 1; other < kSumSlots; ++other) sum += sums[other][lane];
  Y* to = y + (chunk * outer + o) * inner + column;
  *to = from_float<Y>(add ? to_float(*to) + sum / divisor : sum / divisor);
}

// y (chunks, outer, inner): the sums of the chunks.
template <class Y, class X>
void sum_chunks(Y* y, bool add, const X* x, const DimView& view, const RowChunks& chunks, float divisor) {
  const auto grid_y = static_cast<unsigned>(chunks.count);
  if (view.inner == 1) {
    launch(sum_rows_kernel<Y, X>, {{blocks_for(view.outer, 1), grid_y}, kSumThreads}, y, add, x, chunks, divisor);
  } else {
    const unsigned grid_x = blocks_for(checked_multiply(view.outer, ceil_divide(view.inner, kSumColumns)), 1);
    launch(sum_columns_kernel<Y, X>, {{grid_x, grid_y}, kSumThreads}, y, add, x, view.outer, chunks, view.inner,
           divisor);
  }
}

}  // namespace

void expand_dim(Context&, const ExpandDim& p) {
  const int64_t count = p.view.outer * p.view.n * p.view.inner;
  if (!p.y || count == 0) return;
  visit_elements("expand", p.x.dtype, [&](auto from) {
    visit_elements("expand", p.y.ref.dtype, [&](auto to) {
      using X = decltype(from);
      using Y = decltype(to);
      const X* x = elements<X>(p.x);
      Y* y = elements<Y>(p.y.ref);
      constexpr int kVector = kPerVector<Y>;
      const bool wide = can_move<kVector>(p.view.inner == 1 ? p.view.n : p.view.inner, x, y);
      launch(wide ? expand_kernel<kVector, Y, X> : expand_kernel<1, Y, X>,
             {blocks_for(count, kExpandThreads * (wide ? kVector : 1)), kExpandThreads}, y, p.y.add, x, count, p.view.n,
             p.view.inner, static_cast<float>(p.factor));
    });
  });
}

void sum_dim(Context& context, const SumDim& p) {
  const int64_t sums = p.view.outer * p.view.inner;
  if (!p.y || sums == 0) return;
  const RowChunks chunks(p.view.n, kRowsPerChunk);
  const auto divisor = static_cast<float>(p.divisor);
  visit_elements("sum", p.x.dtype, [&](auto from) {
    visit_elements("sum", p.y.ref.dtype, [&](auto to) {
      const auto* x = elements<decltype(from)>(p.x);
      auto* y = elements<decltype(to)>(p.y.ref);
      if (chunks.count == 1) {
        sum_chunks(y, p.y.add, x, p.view, chunks, divisor);
        return;
      }
      const Scratch<float> partial(context, chunks.count * sums);
      sum_chunks(partial.data(), false, x, p.view, chunks, 1.0f);
      sum_chunks(y, p.y.add, static_cast<const float*>(partial.data()), {.n = chunks.count, .inner = sums},
                 RowChunks(chunks.count, chunks.count), divisor);
    });
  });
}

}  // namespace heed::cuda
