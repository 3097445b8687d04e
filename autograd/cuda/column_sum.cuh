// Column sums: sums over the rows of a matrix, in f32 and in a fixed order, e.g. the gradient of a vector that every
// row uses.
//
// The rows are split into chunks; the number of chunks depends only on the number of rows. Each chunk is summed
// separately into a partial row, then the partial rows are added: the bits depend neither on the GPU nor on the order
// in which thread blocks run.
#pragma once

#include <algorithm>

#include "autograd/core/context.hpp"
#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {

struct RowChunks {
  static constexpr int64_t kMost = 1024;

  int64_t rows, count;

  RowChunks(int64_t rows_, int64_t rows_per_chunk)
      : rows(rows_), count(std::clamp<int64_t>(rows_ / rows_per_chunk, 1, kMost)) {}
  __host__ __device__ int64_t begin(int64_t chunk) const { return rows * chunk / count; }
};

constexpr int kPartialColumns = kWarp, kPartialSlots = 32;

struct PartialSum {
  float* total;
  bool add;
  const float* partial;
};

// Threads: 32 columns x 32 slots; a slot adds every 32nd partial row, slot 0 then adds the slots in order. Thread
// blocks with blockIdx.y = 1 compute the second sum. Memory: `partial` is read once, usually from L2, where it has just
// been written.
template <int Slots, int Threads = kPartialColumns* Slots>
__global__ void __launch_bounds__(Threads)
    add_partial_rows_kernel(PartialSum first, PartialSum second, int64_t chunks, int64_t columns) {
  const bool is_first = blockIdx.y == 0, add = is_first ? first.add : second.add;
  const float* partial = is_first ? first.partial : second.partial;
  float* total = is_first ? first.total : second.total;
  __shared__ float sums[Slots][kPartialColumns];
  const int lane = static_cast<int>(threadIdx.x), slot = static_cast<int>(threadIdx.y);
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kPartialColumns + lane;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (int64_t chunk = slot; chunk < chunks; chunk += Slots) sum += partial[chunk * columns + column];
  }
  sums[slot][lane] = sum;
  __syncthreads();
  if (slot != 0 || column >= columns) return;
#pragma unroll
  for (int other = 1; other < Slots; ++other) sum += sums[other][lane];
  total[column] = add ? total[column] + sum : sum;
}

// One partial row per chunk, for kernels that compute column sums in addition to their main output.
class PartialRows {
 public:
  // Allocates nothing for an empty sink.
  PartialRows(const Context& context, const GradientSink& total, const RowChunks& chunks, int64_t columns)
      : total_(total), chunks_(chunks), columns_(columns), partial_(context, total ? chunks.count * columns : 0) {}

  // Shape (chunks, columns); nullptr for an empty sink.
  float* data() const { return total_ ? partial_.data() : nullptr; }
  // Writes or accumulates the total.
  void finish() const {
    if (total_) launch_sum(sum(), nullptr);
  }
  // Computes both totals in one launch. Both have the same number of chunks and columns.
  static void finish(const PartialRows& a, const PartialRows& b) {
    if (!a.total_ || !b.total_) {
      a.finish();
      b.finish();
    } else {
      const PartialSum second = b.sum();
      a.launch_sum(a.sum(), &second);
    }
  }

 private:
  PartialSum sum() const { return {elements<float>(total_.ref), total_.add, partial_.data()}; }
  void launch_sum(const PartialSum& first, const PartialSum* second) const {
    if (columns_ == 0) return;
    launch(add_partial_rows_kernel<kPartialSlots>,
           {{blocks_for(columns_, kPartialColumns), second == nullptr ? 1u : 2u}, {kPartialColumns, kPartialSlots}},
           first, second == nullptr ? first : *second, chunks_.count, columns_);
  }

  GradientSink total_;
  RowChunks chunks_;
  int64_t columns_;
  Scratch<float> partial_;
};

constexpr int kColumnSumWarps = 8, kColumnSumThreads = kColumnSumWarps * kWarp;

// Threads: a thread block of 8 warps processes a chunk of rows, and as many columns as 32 lanes load at a time; a warp
// adds every 8th row, and the sums of the warps are added in order. Memory: x is read once, with 4 rows of a warp in
// flight; a partial row of 4 bytes per element is written for at least 32 rows. One addition per element: memory-bound.
template <int N, class T>
__global__ void __launch_bounds__(kColumnSumThreads)
    column_sum_kernel(float* out, bool add, const T* x, RowChunks chunks, int64_t columns) {
  constexpr int kTile = kWarp * N;
  alignas(N * sizeof(float)) __shared__ float sums[kColumnSumWarps][kTile];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kTile, column = tile + lane * N, chunk = blockIdx.y;
  Floats<N> sum{};
  if (column < columns) {
    const int64_t end = chunks.begin(chunk + 1);
#pragma unroll 4
    for (int64_t row = chunks.begin(chunk) + warp; row < end; row += kColumnSumWarps) {
      const Floats<N> values = load<N>(x + row * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) sum.value[i] += values.value[i];
    }
  }
  store<N>(&sums[warp][lane * N], sum);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kTile && tile + i < columns; i += kColumnSumThreads) {
    float total = sums[0][i];
#pragma unroll
    for (int other = 1; other < kColumnSumWarps; ++other) total += sums[other][i];
    float* to = out + chunk * columns + tile + i;
    *to = add ? *to + total : total;
  }
}

// total[j] = sum over rows of x[row, j], written or accumulated; x is (rows, columns). Without rows the sum is 0.
template <class T>
void column_sum(const Context& context, const GradientSink& total, const T* x, int64_t rows, int64_t columns) {
  if (!total || columns == 0) return;
  const RowChunks chunks(rows, 32);
  const bool single = chunks.count == 1;
  const PartialRows partial(context, single ? GradientSink{} : total, chunks, columns);
  float* out = single ? elements<float>(total.ref) : partial.data();
  constexpr int kVector = kPerVector<T>;
  const bool wide = can_move<kVector>(columns, x);
  launch(wide ? column_sum_kernel<kVector, T> : column_sum_kernel<1, T>,
         {{blocks_for(columns, kWarp * (wide ? kVector : 1)), static_cast<unsigned>(chunks.count)}, kColumnSumThreads},
         out, single && total.add, x, chunks, columns);
  partial.finish();
}

}  // namespace heed::cuda
