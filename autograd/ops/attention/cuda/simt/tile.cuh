// Tiles of attention in f32 on CUDA cores (SIMT): 128 threads as 8 thread groups of 16 lanes.
//
// A thread group owns the rows row_of() of the thread block's tile: only it reads what it wrote of them to shared
// memory, and as 16 lanes are half a warp, __syncwarp() suffices. In the GEMM a b^T (products()) a lane computes
// columns lane + 16 j, in the GEMM P b (add_weighted()) columns 2 lane + 32 j and 2 lane + 32 j + 1. With 8 rows a
// thread reads 12 vectors of 16 bytes per 128 FMAs; 8 of the vectors are the same for all lanes of a thread group
// (broadcast).
// Rows in shared memory are padded by 4 elements, so that 16 bytes of each of 8 rows are in different banks.
#pragma once

#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"
#include "autograd/ops/attention/cuda/dropout.cuh"
#include "autograd/ops/attention/cuda/problem.cuh"

namespace heed::cuda {

constexpr int kTileThreads = 128, kLanes = 16, kGroups = kTileThreads / kLanes;

template <int kRows, int kColumns>
struct alignas(16) Tile {
  float row[kRows][kColumns + 4];
};

__device__ inline int lane_of_group() { return static_cast<int>(threadIdx.x) % kLanes; }

// Row i of a thread in a tile of kRows rows. Up to four of them are adjacent.
template <int kRows>
constexpr int neighbours = kRows / kGroups < 4 ? kRows / kGroups : 4;
template <int kRows>
__device__ __forceinline__ int row_of(int i) {
  constexpr int kNeighbours = neighbours<kRows>;
  const int group = static_cast<int>(threadIdx.x) / kLanes;
  return (i / kNeighbours * kGroups + group) * kNeighbours + i % kNeighbours;
}

// Accumulators of a thread: its rows x its columns.
template <int kRows, int kColumns>
struct Sums {
  float at[kRows / kGroups][kColumns / kLanes];
};

// How kernels read and write the rows of the heads of a problem.
struct RowFormat {
  int columns;
  bool vectors;  // move 4 elements at a time
};
template <class T, class... Heads>
RowFormat row_format(const AttentionProblem& p, const Heads&... heads) {
  return {.columns = static_cast<int>(p.head_size), .vectors = can_move_heads<4, T>(p.head_size, heads...)};
}

// Loads rows `first` and following; rows outside of `valid` and columns beyond the head size become 0.
template <int kRows, int kColumns, class T>
__device__ __forceinline__ void load_tile(Tile<kRows, kColumns>& tile, const Rows<T>& from, const RowFormat& format,
                                          int first, Span valid) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kColumns / 4; i += kTileThreads) {
    const int r = i / (kColumns / 4), c = i % (kColumns / 4) * 4, row = first + r;
    Floats<4> floats{};
    if (row >= valid.begin && row < valid.end) {
      if (format.vectors) {
        if (c < format.columns) floats = load<4>(from.at(row) + c);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (c + e < format.columns) floats.value[e] = to_float(from.at(row)[c + e]);
        }
      }
    }
    store<4>(&tile.row[r][c], floats);
  }
}

// GEMM a b^T: each row of a with each row of b.
template <int kRows, int kOthers, int kColumns>
__device__ __forceinline__ Sums<kRows, kOthers> products(const Tile<kRows, kColumns>& a,
                                                         const Tile<kOthers, kColumns>& b) {
  constexpr int kMine = kRows / kGroups, kEach = kOthers / kLanes;
  Sums<kRows, kOthers> sums{};
#pragma unroll 1
  for (int c = 0; c < kColumns; c += 4) {
    Floats<4> others[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) others[j] = load<4>(&b.row[lane_of_group() + kLanes * j][c]);
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const Floats<4> mine = load<4>(&a.row[row_of<kRows>(i)][c]);
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums.at[i][j] += mine.value[e] * others[j].value[e];
      }
    }
  }
  return sums;
}

template <int kRows, int kOthers>
__device__ __forceinline__ void store_weights(Tile<kRows, kOthers>& to, const Sums<kRows, kOthers>& weights) {
#pragma unroll
  for (int i = 0; i < kRows / kGroups; ++i) {
#pragma unroll
    for (int j = 0; j < kOthers / kLanes; ++j) {
      to.row[row_of<kRows>(i)][lane_of_group() + kLanes * j] = weights.at[i][j];
    }
  }
}

// sums += weights * b. Row k of b is added to row i of the thread only if uses(i, k): otherwise it is skipped, even if
// it is NaN.
template <int kRows, int kOthers, int kColumns, class Uses>
__device__ __forceinline__ void add_weighted(const Tile<kRows, kOthers>& weights, const Tile<kOthers, kColumns>& b,
                                             Sums<kRows, kColumns>& sums, const Uses& uses) {
  constexpr int kMine = kRows / kGroups, kPairs = kColumns / 32;
#pragma unroll 1
  for (int k = 0; k < kOthers; k += 4) {
    Floats<4> mine[kMine];
#pragma unroll
    for (int i = 0; i < kMine; ++i) mine[i] = load<4>(&weights.row[row_of<kRows>(i)][k]);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Floats<2> others[kPairs];
#pragma unroll
      for (int j = 0; j < kPairs; ++j) others[j] = load<2>(&b.row[k + e][2 * lane_of_group() + 32 * j]);
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        if (!uses(i, k + e)) continue;
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
          sums.at[i][2 * j] += mine[i].value[e] * others[j].value[0];
          sums.at[i][2 * j + 1] += mine[i].value[e] * others[j].value[1];
        }
      }
    }
  }
}

// The ranges (MaskRange) of the rows of a thread, relative to the first column `column` of a tile of the other side.
template <int kRows>
struct RowKeyRanges {
  Span of[kRows / kGroups];

  __device__ RowKeyRanges(const MaskRange& mask_range, int first_row, int column) {
#pragma unroll
    for (int i = 0; i < kRows / kGroups; ++i) {
      const Span span = mask_range.of(first_row + row_of<kRows>(i));
      of[i] = {span.begin - column, span.end - column};
    }
  }
  __device__ bool sees(int i, int j) const {
    const int column = lane_of_group() + kLanes * j;
    return column >= of[i].begin && column < of[i].end;
  }
};

// The same with a mask; all: no element of the tile is masked.
template <int kRows, int kOthers, int kColumns>
__device__ __forceinline__ void add_weighted(const Tile<kRows, kOthers>& weights, const Tile<kOthers, kColumns>& b,
                                             Sums<kRows, kColumns>& sums, bool all, const RowKeyRanges<kRows>& seen) {
  if (all) {
    add_weighted(weights, b, sums, [](int, int) { return true; });
  } else {
    add_weighted(weights, b, sums, [&](int i, int k) { return k >= seen.of[i].begin && k < seen.of[i].end; });
  }
}

// Dropout mask of a thread: bit n = i + kMine * j is set if the element of its row i and column j is kept. Rows are
// queries: eight lanes hold the 8 keys of a Philox counter, and each computes the counter for another one of 8 elements
// n.
template <int kRows, int kOthers>
__device__ __forceinline__ unsigned kept_of_queries(const KeptWeights& weights, int first_query, int first_key) {
  constexpr int kMine = kRows / kGroups, kElements = kMine * (kOthers / kLanes);
  static_assert(kElements <= 32 && (kElements % 8 == 0 || 8 % kElements == 0));
  const int lane = lane_of_group(), number = lane % 8;
  unsigned kept = 0;
#pragma unroll 1
  for (int first = 0; first < kElements; first += 8) {
    const int n = first + number % kElements;
    const unsigned bits = weights.eight(first_query + row_of<kRows>(n % kMine), first_key + n / kMine * kLanes + lane);
    kept |= transpose_bits<8, 1>(bits, number) << first;
  }
  return kept;
}
// The same with keys as rows: the same lanes of the two thread groups of a warp hold the 8 keys of a Philox counter, 4
// adjacent ones each, and each computes the counter for another 4 elements n.
template <int kRows, int kOthers>
__device__ __forceinline__ unsigned kept_of_keys(const KeptWeights& weights, int first_key, int first_query) {
  constexpr int kMine = kRows / kGroups, kElements = kMine * (kOthers / kLanes);
  static_assert(kElements <= 32);
  const int query = first_query + lane_of_group();
  if constexpr (kElements < 8) {  // fewer than 4 adjacent keys, and one query
    static_assert(kElements == neighbours<kRows>);
    const int key = first_key + row_of<kRows>(0);
    return weights.eight(query, key) >> key % 8;
  } else {
    static_assert(kElements % 8 == 0 && neighbours<kRows> == 4);
    const int number = static_cast<int>(threadIdx.x) / kLanes % 2;
    unsigned kept = 0;
#pragma unroll 1
    for (int first = 0; first < kElements; first += 8) {
      const int n = first + 4 * number;
      const unsigned bits = weights.eight(query + n / kMine * kLanes, first_key + row_of<kRows>(n % kMine));
      kept |= transpose_bits<2, kLanes>(bits, number) << first;
    }
    return kept;
  }
}
template <int kRows, int kOthers>
__device__ __forceinline__ void drop(Sums<kRows, kOthers>& weights, unsigned kept) {
  constexpr int kMine = kRows / kGroups;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
#pragma unroll
    for (int j = 0; j < kOthers / kLanes; ++j) {
      if ((kept >> (i + kMine * j) & 1u) == 0) weights.at[i][j] = 0;
    }
  }
}

template <int kRows, int kColumns>
__device__ __forceinline__ void scale_sums(Sums<kRows, kColumns>& sums, float factor) {
#pragma unroll
  for (auto& row : sums.at) {
#pragma unroll
    for (float& sum : row) sum *= factor;
  }
}

// Writes rows `first` and following, or adds to them; rows from `rows` on do not exist. Rows outside of `part` are 0.
template <int kRows, int kColumns, class T>
__device__ __forceinline__ void store_tile(const Rows<T>& to, const RowFormat& format, int first, int rows, Span part,
                                           const Sums<kRows, kColumns>& sums, bool add) {
#pragma unroll
  for (int i = 0; i < kRows / kGroups; ++i) {
    const int row = first + row_of<kRows>(i);
    const bool takes_part = row >= part.begin && row < part.end;
    if (row >= rows || (add && !takes_part)) continue;
#pragma unroll
    for (int j = 0; j < kColumns / kLanes; j += 2) {
      const int c = 2 * lane_of_group() + kLanes * j;
      T* address = to.at(row) + c;
      Floats<2> floats{};
      if (takes_part) floats = {sums.at[i][j], sums.at[i][j + 1]};
      if (format.vectors) {
        if (c >= format.columns) continue;
        if (add) {
          const Floats<2> before = load<2>(address);
          floats = {before.value[0] + floats.value[0], before.value[1] + floats.value[1]};
        }
        store<2>(address, floats);
      } else {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          if (c + e < format.columns) {
            address[e] = from_float<T>(add ? to_float(address[e]) + floats.value[e] : floats.value[e]);
          }
        }
      }
    }
  }
}

}  // namespace heed::cuda
