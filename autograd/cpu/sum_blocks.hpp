// How the sum over the middle dimension of (outer, n, inner) is divided. A thread sums a block of rows, and the sums of
// the blocks are summed in the same way: threads share a long sum, and no long running sum loses digits in f32. Depends
// on n and inner only, so that the bits do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "autograd/core/shape.hpp"

namespace heed::cpu {

struct SumBlocks {
  static constexpr int64_t kTile = 256;        // columns that are summed together
  static constexpr int64_t kNarrow = 64;       // rows shorter than this are folded
  static constexpr int64_t kMostWidth = 1024;  // of what add_rows() sums: a tile, or the columns of a folded row

  // `fold` adjacent rows (a power of two) are summed as one row of fold * inner columns, so that narrow rows fill
  // vectors. `rows` rows of x are a block, whose running sums have 128 terms at most.
  int64_t fold = 1, rows = 512;
  int64_t count, tiles;

  SumBlocks(int64_t n, int64_t inner) {
    constexpr int64_t kLeastFold = 16, kLeastWidth = 128, kDepth = 128;
    if (inner > 1) {
      if (inner < kNarrow) fold = kLeastFold;
      while (inner < kNarrow && fold * inner < kLeastWidth) fold *= 2;
      rows = kDepth * fold;
    }
    count = std::max<int64_t>(1, ceil_divide(n, rows));
    tiles = ceil_divide(inner, kTile);
  }
};

}  // namespace heed::cpu
