// Threads process tiles of up to 64 rows and columns. If runs of several elements stay together (inner > 1), a tile is
// copied run by run. Otherwise it is copied to a buffer and written from there, so that x and y are accessed in whole
// cache lines only: lines that are a power of two apart compete for a few places of L1 and would be evicted half used.
#include <algorithm>

#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/transpose.hpp"

namespace heed::cpu {
namespace {

constexpr int64_t kTile = 64;

// A tile of x, and the distances from one of its rows to the next and, in y, from one of its columns to the next.
template <class T>
struct Tile {
  T* y;
  const T* x;
  int64_t rows, columns, x_stride, y_stride;
  bool add;

  void exchange_elements() const {
    T buffer[kTile][kTile + 1];
    for (int64_t i = 0; i < rows; ++i) std::copy_n(x + i * x_stride, columns, buffer[i]);
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) put(buffer[i][j], y[j * y_stride + i]);
    }
  }
  void exchange_runs(int64_t inner) const {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) {
        const T* from = x + i * x_stride + j * inner;
        T* to = y + j * y_stride + i * inner;
        if (add) {
          for (int64_t k = 0; k < inner; ++k) put(from[k], to[k]);
        } else {
          std::copy_n(from, inner, to);
        }
      }
    }
  }

 private:
  void put(T value, T& to) const { to = add ? static_cast<T>(AccumT<T>(to) + AccumT<T>(value)) : value; }
};

template <class T>
void transpose_tiles(const Transpose& p, int64_t begin, int64_t end) {
  const TransposeSizes from = p.sizes, to = from.exchanged();
  const int64_t row_tiles = ceil_divide(from.rows, kTile), column_tiles = ceil_divide(from.columns, kTile);
  for (int64_t index = begin; index < end; ++index) {
    const int64_t row = index % row_tiles * kTile, column = index / row_tiles % column_tiles * kTile;
    const int64_t matrix = index / row_tiles / column_tiles, outer = matrix / from.middle,
                  middle = matrix % from.middle;
    const Tile<T> tile{.y = p.y.ref.as<T>() + to.offset(outer, column, middle, row),
                       .x = p.x.as<T>() + from.offset(outer, row, middle, column),
                       .rows = std::min(kTile, from.rows - row),
                       .columns = std::min(kTile, from.columns - column),
                       .x_stride = from.middle * from.columns * from.inner,
                       .y_stride = from.middle * from.rows * from.inner,
                       .add = p.y.add};
    from.inner == 1 ? tile.exchange_elements() : tile.exchange_runs(from.inner);
  }
}

}  // namespace

void transpose(Context&, const Transpose& p) {
  const TransposeSizes& sizes = p.sizes;
  if (!p.y || sizes.numel() == 0) return;
  const int64_t tiles = sizes.outer * sizes.middle * ceil_divide(sizes.rows, kTile) * ceil_divide(sizes.columns, kTile);
  parallel_for(tiles, ceil_divide(kElementwiseGrain * tiles, sizes.numel()), [&](int64_t begin, int64_t end) {
    visit_floating(p.x.dtype, [&](auto zero) { transpose_tiles<decltype(zero)>(p, begin, end); });
  });
}

}  // namespace heed::cpu
