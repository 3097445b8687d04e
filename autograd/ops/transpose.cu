// If the last dimension moves (inner = 1): a thread block per tile of 32 x 32 elements, which goes through shared
// memory, so that each warp reads and writes 32 adjacent elements. Otherwise runs of `inner` elements stay together,
// and a thread moves one element; adjacent threads write adjacent elements and read them from the same run. Memory:
// every element is read and written once, and y also read if it is accumulated into; memory-bound. No sums, so the bits
// are always the same.
#include "autograd/ops/transpose.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kTile = kWarp, kThreads = 256, kWarps = kThreads / kWarp;

template <class T>
struct Exchange {
  T* y;
  bool add;
  const T* x;
  TransposeSizes from, to;
  int64_t row_tiles, column_tiles;

  __device__ __forceinline__ void put(int64_t at, float value) const {
    y[at] = from_float<T>(add ? to_float(y[at]) + value : value);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) transpose_tiles_kernel(Exchange<T> p) {
  __shared__ float tile[kTile][kTile + 1];  // the column in excess spreads a column over all banks
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t index = blockIdx.x, matrix = index / p.row_tiles / p.column_tiles;
  const int64_t outer = matrix / p.from.middle, middle = matrix % p.from.middle;
  const int64_t row = index % p.row_tiles * kTile, column = index / p.row_tiles % p.column_tiles * kTile;
  for (int i = warp; i < kTile; i += kWarps) {
    if (row + i < p.from.rows && column + lane < p.from.columns) {
      tile[i][lane] = to_float(p.x[p.from.offset(outer, row + i, middle, column + lane)]);
    }
  }
  __syncthreads();
  for (int j = warp; j < kTile; j += kWarps) {
    if (column + j < p.from.columns && row + lane < p.from.rows) {
      p.put(p.to.offset(outer, column + j, middle, row + lane), tile[lane][j]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) transpose_runs_kernel(Exchange<T> p, int64_t n) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= n) return;
  const TransposeSizes& to = p.to;
  const int64_t run = at / to.inner, row = run / to.columns / to.middle;
  const int64_t from = p.from.offset(row / to.rows, run % to.columns, run / to.columns % to.middle, row % to.rows);
  p.put(at, to_float(p.x[from + at % to.inner]));
}

}  // namespace

void transpose(Context&, const Transpose& p) {
  const TransposeSizes& sizes = p.sizes;
  const int64_t n = sizes.numel();
  if (!p.y || n == 0) return;
  visit_elements("transpose", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Exchange<T> exchange{.y = elements<T>(p.y.ref),
                               .add = p.y.add,
                               .x = elements<T>(p.x),
                               .from = sizes,
                               .to = sizes.exchanged(),
                               .row_tiles = ceil_divide(sizes.rows, kTile),
                               .column_tiles = ceil_divide(sizes.columns, kTile)};
    if (sizes.inner == 1) {
      const int64_t tiles = sizes.outer * sizes.middle * exchange.row_tiles * exchange.column_tiles;
      launch(transpose_tiles_kernel<T>, {blocks_for(tiles, 1), kThreads}, exchange);
    } else {
      launch(transpose_runs_kernel<T>, {blocks_for(n, kThreads), kThreads}, exchange, n);
    }
  });
}

}  // namespace heed::cuda
