// Shared-memory tiles and mma fragments of attention on tensor cores: 4 warps, each with 16 or 32 rows of the thread
// block's own tile.
//
// All intermediate results of a warp's rows stay in its registers: the accumulators of S = q k^T (or of dY V^T, or
// their transposes) are rounded to bf16 and are the A operand of the next GEMM, without a detour through shared memory.
// Each 16 x 16 part of a B operand is read once (512 bytes, 4 cycles of shared memory) for all rows of a warp: for 4
// mma.m16n8k16 with 32 rows per warp, for 2 with 16.
#pragma once

#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/mma.cuh"
#include "autograd/ops/attention/cuda/dropout.cuh"
#include "autograd/ops/attention/cuda/problem.cuh"

namespace heed::cuda {

constexpr int kMmaWarps = 4, kMmaThreads = kMmaWarps * kWarp;

__device__ inline int warp_of_thread() { return static_cast<int>(threadIdx.x) / kWarp; }
__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % kWarp; }
// Accumulator layout of m16n8k16: a lane holds rows group() and group() + 8, columns pair() and pair() + 1.
__device__ inline int group() { return lane_of_thread() / 4; }
__device__ inline int pair() { return lane_of_thread() % 4 * 2; }

// A tile of bf16 rows in shared memory. Each row is padded by 16 bytes to an odd number of 16-byte vectors, so the same
// vector of the 8 rows that ldmatrix reads at a time covers all 32 banks: no bank conflicts. (An XOR swizzle would need
// no padding, but an address for each vector instead of one with an offset, and registers are scarce.)
template <int kRows, int kColumns>
struct alignas(128) MmaTile {
  static constexpr int kPieces = kColumns / 8, kStride = kColumns + 8;
  static_assert(kStride / 8 % 2 == 1);
  __nv_bfloat16 element[kRows * kStride];

  // Starts an asynchronous copy (cp.async) of rows `first` and following; rows outside of `valid` and columns from
  // `columns` on become 0. A thread copies the same 16-byte vector of every kStep-th row.
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
  // A operand fragment (16 x 16): rows from `row` on, columns from `column` on.
  __device__ __forceinline__ void read_left(unsigned (&to)[4], int row, int column) const {
    const int lane = lane_of_thread();
    ldmatrix_x4(to, element + lane % 16 * kStride + lane / 16 * 8 + row * kStride + column);
  }
  // Two B operand fragments for a GEMM with tile^T: rows of the tile are columns of the result. Registers 0 and 1 hold
  // 8 rows from `row` on, 2 and 3 the next 8.
  __device__ __forceinline__ void read_right_of_rows(unsigned (&to)[4], int row, int column) const {
    const int lane = lane_of_thread();
    ldmatrix_x4(to, element + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8 + row * kStride + column);
  }
  // Two B operand fragments for a GEMM with the tile: columns of the tile are columns of the result.
  __device__ __forceinline__ void read_right(unsigned (&to)[4], int row, int column) const {
    const int lane = lane_of_thread();
    ldmatrix_x4_trans(to, element + lane % 16 * kStride + lane / 16 * 8 + row * kStride + column);
  }
};

// Accumulators (f32) of 16 * kBlocks rows: at[m][j][e] is row 16 m + group() + e / 2 * 8, column 8 j + pair() + e % 2.
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
  // Elements for which is_kept(m, j, e) is false become 0, even if they are NaN.
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

// GEMM a[row …] b^T: 16 * kBlocks rows of a from `row` on with each row of b.
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

// Attention probabilities (or dS) rounded to bf16, in the layout of A operand fragments.
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

// The ranges (MaskRange) of the rows of a thread block, in shared memory, where they take no registers. After set() a
// barrier must follow.
template <int kRows>
struct KeyRanges {
  static_assert(kRows <= kMmaThreads);
  Span of[kRows];

  __device__ __forceinline__ void set(const MaskRange& mask_range, int first_row) {
    const int row = static_cast<int>(threadIdx.x);
    if (row < kRows) of[row] = mask_range.of(first_row + row);
  }
};

// The ranges of the rows of a lane, relative to the first column `column` of a tile of the other side. ranges: of the
// rows of the warp.
template <int kBlocks>
struct FragmentKeyRanges {
  Span of[kBlocks][2];

  __device__ FragmentKeyRanges(const Span* ranges, int column) {
#pragma unroll
    for (int n = 0; n < 2 * kBlocks; ++n) {
      const Span span = ranges[8 * n + group()];
      of[n / 2][n % 2] = {span.begin - column, span.end - column};
    }
  }
  __device__ bool sees(int m, int j, int e) const {
    const int column = 8 * j + pair() + e % 2;
    return column >= of[m][e / 2].begin && column < of[m][e / 2].end;
  }
};

// The same GEMM with an exact mask: rows of b outside a row's range count as 0, even if they are NaN. It processes one
// row after the other, with b masked for it, at 16 times the work. If b is finite it returns the same bits as
// add_weighted().
template <int kBlocks, int kOthers, int kColumns>
__device__ __forceinline__ void add_seen(const PackedWeights<kBlocks, kOthers>& weights,
                                         const MmaTile<kOthers, kColumns>& b, Fragment<kBlocks, kColumns>& sums,
                                         const Span* ranges, int column) {
#pragma unroll
  for (int n = 0; n < 2 * kBlocks; ++n) {
    const int m = n / 2, half = n % 2 * 2;
#pragma unroll 1
    for (int r = 0; r < 8; ++r) {
      const Span seen = ranges[8 * n + r];
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

// scores = scale * scores + ALiBi's bias. Rows from `first_row` on and columns from `column` on are queries and keys,
// or keys and queries.
template <bool kRowsAreQueries, int kBlocks, int kOthers>
__device__ __forceinline__ void scale_and_add_bias(Fragment<kBlocks, kOthers>& scores, float scale, const Alibi& alibi,
                                                   int first_row, int column) {
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int j = 0; j < kOthers / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = first_row + 16 * m + group() + e / 2 * 8, other = column + 8 * j + pair() + e % 2;
        float& score = scores.at[m][j][e];
        score = score * scale + (kRowsAreQueries ? alibi.bias(row, other) : alibi.bias(other, row));
      }
    }
  }
}

// Dropout mask of a lane, 16 rows and up to 64 columns: bit 4 j + e is set if element e of fragment j is kept. Rows are
// queries: four lanes hold the 8 keys of a Philox counter. For 2 fragments they need 2 counters for each of 2 queries,
// and each lane computes one of these four.
template <int kOthers>
__device__ __forceinline__ unsigned kept_of_query_rows(const KeptWeights& weights, int first_query, int first_key) {
  static_assert(kOthers <= 64 && kOthers % 16 == 0);
  const int number = lane_of_thread() % 4;
  unsigned kept = 0;
#pragma unroll 2
  for (int j = 0; j < kOthers / 8; j += 2) {
    const unsigned bits = weights.eight(first_query + group() + number % 2 * 8, first_key + 8 * (j + number / 2));
    kept |= transpose_bits<4, 1>(bits, number) << (4 * j);
  }
  return kept;
}
// The same with keys as rows: eight lanes hold the 8 keys of a Philox counter. For 2 fragments they need 2 counters for
// each of 4 queries, and each lane computes one of these eight.
template <int kOthers>
__device__ __forceinline__ unsigned kept_of_key_rows(const KeptWeights& weights, int first_key, int first_query) {
  static_assert(kOthers <= 64 && kOthers % 16 == 0);
  const int number = group();
  unsigned kept = 0;
#pragma unroll 2
  for (int j = 0; j < kOthers / 8; j += 2) {
    const int query = first_query + 8 * (j + number / 4) + pair() + number % 2;
    const unsigned bits = weights.eight(query, first_key + number / 2 % 2 * 8);
    kept |= transpose_bits<8, 4>(bits, number) << (4 * j);
  }
  return kept;
}

// Writes rows `first` and following, or adds to them; rows from `rows` on do not exist. Rows outside of `part` are 0.
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
