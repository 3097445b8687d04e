// Tiles and fragments of attention on tensor cores: 4 warps, each with 16 or 32 rows of the block's own tile.
//
// Whatever a warp makes of its rows stays in its registers: scores of its rows and columns of the other side come out
// of a product as sums, and go rounded to bf16 into the next product as its left matrix, without shared memory.
// Of a product each 16 x 16 of the other side are read once (512 bytes, 4 cycles of shared memory) for all rows of a
// warp: for 4 products of m16n8k16 with 32 rows, 2 with 16.
#pragma once

#include "autograd/cuda/mma.cuh"
#include "autograd/cuda/shared.cuh"
#include "autograd/ops/attention/attention_dropout.cuh"
#include "autograd/ops/attention/attention_mask.cuh"

namespace heed::cuda {

constexpr int kMmaWarps = 4, kMmaThreads = kMmaWarps * kWarp;

__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / kWarp; }
__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarp; }
// Of a fragment a lane has rows group() and group() + 8, of 8 columns pair() and the next.
__device__ inline int group() { return lane_of_thread() / 4; }
__device__ inline int pair() { return lane_of_thread() % 4 * 2; }

// Rows of bf16 in shared memory, 16 bytes longer than they hold: an odd number of pieces of 16 bytes, so the same piece
// of 8 rows, which ldmatrix reads at a time, lies in all 32 banks. (Exchanging pieces instead would need no gaps, but
// an address for each piece instead of one with an offset, and registers are what is short.)
template <int kRows, int kColumns>
struct alignas(128) MmaTile {
  static constexpr int kPieces = kColumns / 8, kStride = kColumns + 8;
  static_assert(kStride / 8 % 2 == 1);
  __nv_bfloat16 element[kRows * kStride];

  // Begins to copy rows from `first` on; those outside of `valid` and columns that there are not become 0. A thread has
  // the same piece of every kStep-th row.
  __device__ __forceinline__ void load_async(const Rows<const __nv_bfloat16>& from, int columns, int first,
                                             Span valid) {
    constexpr int kStep = kMmaThreads / kPieces / 8 * 8;
    static_assert(kRows % kStep == 0);
    const int r = static_cast<int>(threadIdx.x) / kPieces, piece = static_cast<int>(threadIdx.x) % kPieces;
    if (r >= kStep) return;
    const __nv_bfloat16* address = from.at(first + r) + piece * 8;
    __nv_bfloat16* to = element + r * kStride + piece * 8;
#pragma unroll
    for (int i = 0; i < kRows; i += kStep) {
      const int row = first + r + i;
      const bool is_valid = row >= valid.begin && row < valid.end && piece * 8 < columns;
      cp_async_16(to + i * kStride, is_valid ? address : from.data, is_valid);
      address += kStep * from.stride;
    }
  }
  // A left matrix: rows from `row` on, columns from `column` on.
  __device__ __forceinline__ void read_left(unsigned (&to)[4], int row, int column) const {
    const int lane = lane_of_thread();
    ldmatrix_x4(to, element + lane % 16 * kStride + lane / 16 * 8 + row * kStride + column);
  }
  // Two right matrices, columns of the product are rows of the tile: 0, 1 for those from `row` on, 2, 3 for row + 8.
  __device__ __forceinline__ void read_right_of_rows(unsigned (&to)[4], int row, int column) const {
    const int lane = lane_of_thread();
    ldmatrix_x4(to, element + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8 + row * kStride + column);
  }
  // Two right matrices, columns of the product are columns of the tile.
  __device__ __forceinline__ void read_right(unsigned (&to)[4], int row, int column) const {
    const int lane = lane_of_thread();
    ldmatrix_x4_trans(to, element + lane % 16 * kStride + lane / 16 * 8 + row * kStride + column);
  }
};

// 16 * kBlocks rows of f32: element e of block j of 8 columns is of row group() + e / 2 * 8, column pair() + e % 2.
template <int kBlocks, int kColumns>
struct Fragment {
  float at[kBlocks][kColumns / 8][4];

  __device__ __forceinline__ bool holds_nan() const {
    bool found = false;
#pragma unroll
    for (const auto& rows : at) {
#pragma unroll
      for (const auto& block : rows) {
#pragma unroll
        for (const float value : block) found |= value != value;
      }
    }
    return found;
  }
  // is_kept(m, j, e): others become 0, whatever they are.
  template <class IsKept>
  __device__ __forceinline__ void clear_unless(const IsKept& is_kept) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) at[m][j][e] = is_kept(m, j, e) ? at[m][j][e] : 0.0f;
      }
    }
  }
  __device__ __forceinline__ void scale(float factor) {
#pragma unroll
    for (auto& rows : at) {
#pragma unroll
      for (auto& block : rows) {
#pragma unroll
        for (float& value : block) value *= factor;
      }
    }
  }
};

// Products of the rows of a from `row` on with each row of b.
template <int kBlocks, int kRows, int kOthers, int kColumns>
__device__ __forceinline__ Fragment<kBlocks, kOthers> products(const MmaTile<kRows, kColumns>& a, int row,
                                                               const MmaTile<kOthers, kColumns>& b) {
  Fragment<kBlocks, kOthers> sums{};
#pragma unroll
  for (int c = 0; c < kColumns; c += 16) {
    unsigned left[kBlocks][4];
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) a.read_left(left[m], row + 16 * m, c);
#pragma unroll
    for (int j = 0; j < kOthers / 8; j += 2) {
      unsigned right[4];
      b.read_right_of_rows(right, 8 * j, c);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
        mma_bf16_16816(sums.at[m][j], left[m], {right[0], right[1]});
        mma_bf16_16816(sums.at[m][j + 1], left[m], {right[2], right[3]});
      }
    }
  }
  return sums;
}

// Weights as left matrices.
template <int kBlocks, int kOthers>
struct PackedWeights {
  unsigned at[kBlocks][kOthers / 16][4];

  __device__ explicit PackedWeights(const Fragment<kBlocks, kOthers>& weights) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
      for (int j = 0; j < kOthers / 16; ++j) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float(&block)[4] = weights.at[m][2 * j + i / 2];
          at[m][j][i] = pack_bf16(block[i % 2 * 2], block[i % 2 * 2 + 1]);
        }
      }
    }
  }
};

// sums += weights * b
template <int kBlocks, int kOthers, int kColumns>
__device__ __forceinline__ void add_weighted(const PackedWeights<kBlocks, kOthers>& weights,
                                             const MmaTile<kOthers, kColumns>& b, Fragment<kBlocks, kColumns>& sums) {
#pragma unroll
  for (int j = 0; j < kOthers / 16; ++j) {
#pragma unroll
    for (int c = 0; c < kColumns / 8; c += 2) {
      unsigned right[4];
      b.read_right(right, 16 * j, 8 * c);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
        mma_bf16_16816(sums.at[m][c], weights.at[m][j], {right[0], right[1]});
        mma_bf16_16816(sums.at[m][c + 1], weights.at[m][j], {right[2], right[3]});
      }
    }
  }
}

// What the rows of a lane see of a tile of the other side from `column` on, counted from there.
template <int kBlocks>
struct SeenByFragment {
  Span of[kBlocks][2];

  __device__ SeenByFragment(const Sight& sight, int first_row, int column) {
#pragma unroll
    for (int n = 0; n < 2 * kBlocks; ++n) {
      const Span span = sight.of(first_row + 8 * n + group());
      of[n / 2][n % 2] = {span.begin - column, span.end - column};
    }
  }
  __device__ bool sees(int m, int j, int e) const {
    const int column = 8 * j + pair() + e % 2;
    return column >= of[m][e / 2].begin && column < of[m][e / 2].end;
  }
};

// The same sum where a row takes only those rows of b that it sees: the others are as 0, whatever they hold. One row
// after the other, with b masked for it, at 16 times the work. The same bits as above where b is finite.
template <int kBlocks, int kOthers, int kColumns>
__device__ __forceinline__ void add_seen(const PackedWeights<kBlocks, kOthers>& weights,
                                         const MmaTile<kOthers, kColumns>& b, Fragment<kBlocks, kColumns>& sums,
                                         const Sight& sight, int first_row, int column) {
#pragma unroll
  for (int n = 0; n < 2 * kBlocks; ++n) {
    const int m = n / 2, half = n % 2 * 2;
#pragma unroll 1
    for (int r = 0; r < 8; ++r) {
      const Span seen = sight.of(first_row + 8 * n + r);
      const auto mask_of_pair = [&](int k) {
        const int first = column + k + pair();
        return (first >= seen.begin && first < seen.end ? 0xFFFFu : 0u) |
               (first + 1 >= seen.begin && first + 1 < seen.end ? 0xFFFF0000u : 0u);
      };
#pragma unroll
      for (int c = 0; c < kColumns / 8; ++c) {
        float row[4] = {sums.at[m][c][0], sums.at[m][c][1], sums.at[m][c][2], sums.at[m][c][3]};
#pragma unroll
        for (int j = 0; j < kOthers / 16; ++j) {
          unsigned right[4];
          b.read_right(right, 16 * j, c / 2 * 16);
          mma_bf16_16816(row, weights.at[m][j],
                         {right[c % 2 * 2] & mask_of_pair(16 * j), right[c % 2 * 2 + 1] & mask_of_pair(16 * j + 8)});
        }
        if (group() == r) {
          sums.at[m][c][half] = row[half];
          sums.at[m][c][half + 1] = row[half + 1];
        }
      }
    }
  }
}

// Bit 4 j + e: whether weight e of block j of a lane is kept; 16 rows and up to 64 columns. Rows are queries: two lanes
// have the keys of a counter, each draws it for one of their two rows.
template <int kOthers>
__device__ __forceinline__ unsigned kept_of_query_rows(const KeptWeights& weights, int first_query, int first_key) {
  static_assert(kOthers <= 64);
  const int odd = lane_of_thread() % 2, quarter = lane_of_thread() % 4 / 2 * 4;
  unsigned kept = 0;
#pragma unroll 1
  for (int j = 0; j < kOthers / 8; ++j) {
    const unsigned four = weights.four(first_query + group() + 8 * odd, first_key + 8 * j + quarter);
    const unsigned bits = share_bits<2, 1>(four, odd) >> (2 * odd);
    kept |= ((bits & 3u) | (bits >> 4 & 3u) << 2) << (4 * j);
  }
  return kept;
}
// Rows are keys: four lanes have the keys of a counter, each draws it for one of their two queries and of two counters.
template <int kOthers>
__device__ __forceinline__ unsigned kept_of_key_rows(const KeptWeights& weights, int first_key, int first_query) {
  static_assert(kOthers <= 64);
  const int word = group() % 4;
  unsigned kept = 0;
#pragma unroll 1
  for (int j = 0; j < kOthers / 8; ++j) {
    const unsigned four =
        weights.four(first_query + 8 * j + pair() + word % 2, first_key + group() - word + word / 2 * 8);
    const unsigned bits = share_bits<4, 4>(four, word) >> word;
#pragma unroll
    for (int e = 0; e < 4; ++e) kept |= (bits >> (4 * e) & 1u) << (4 * j + e);
  }
  return kept;
}

// Writes the rows from `first` on, or adds to them. Those outside of `part` are 0.
template <int kBlocks, int kColumns>
__device__ __forceinline__ void store_rows(const Rows<__nv_bfloat16>& to, int columns, int first, int rows, Span part,
                                           const Fragment<kBlocks, kColumns>& sums, bool add) {
#pragma unroll
  for (int n = 0; n < 2 * kBlocks; ++n) {
    const int row = first + 8 * n + group();
    const bool takes_part = row >= part.begin && row < part.end;
    if (row >= rows || (add && !takes_part)) continue;
    __nv_bfloat16* address = to.at(row) + pair();
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
      if (8 * j >= columns) break;
      Floats<2> floats{};
      if (takes_part) floats = {sums.at[n / 2][j][n % 2 * 2], sums.at[n / 2][j][n % 2 * 2 + 1]};
      if (add) {
        const Floats<2> before = load<2>(address + 8 * j);
        floats = {before.value[0] + floats.value[0], before.value[1] + floats.value[1]};
      }
      store<2>(address + 8 * j, floats);
    }
  }
}

}  // namespace heed::cuda
