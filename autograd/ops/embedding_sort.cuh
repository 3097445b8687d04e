// Sorts tokens on the device, so that all positions of a token are adjacent, in ascending order.
//
// LSD radix sort with 8-bit digits: one pass per byte of `vocabulary`, so at most 3 passes for vocabularies below 2^24.
//
// A pass has three kernels: thread blocks of 256 count the digits of a tile of 2048 entries; one thread block per digit
// computes the prefix sums of its counts over the tiles; then the entries of each tile are scattered to their places. A
// warp processes a contiguous part of a tile, 32 entries at a time, and finds by ballots which of its lanes hold the
// same digit. Memory: 8 bytes per entry are read twice and written once per pass; for 32768 tokens 1 MB, so the number
// of launches dominates. Only integers are counted, so the result does not depend on the order of threads.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "autograd/core/context.hpp"
#include "autograd/cuda/launch.cuh"
#include "autograd/cuda/reduce.cuh"

namespace heed::cuda {

// A token and its row of dy (or of partial sums). kNoRow: the entry has a token but no row.
struct TokenEntry {
  static constexpr uint32_t kNoRow = 0xFFFFFFFF;
  uint32_t row, token;
};

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
constexpr int kSortThreads = kDigits, kSortWarps = kSortThreads / kWarp;  // one thread per digit
constexpr int kSortRounds = 8, kSortTile = kSortThreads * kSortRounds;

// Input of a pass: the first pass reads the tokens themselves, the others the entries of the pass before.
struct FromTokens {
  const int32_t* tokens;
  int64_t vocabulary;
  __device__ TokenEntry operator()(int64_t i) const {
    const int32_t token = tokens[i];
    if (token < 0 || token >= vocabulary) return {TokenEntry::kNoRow, static_cast<uint32_t>(vocabulary)};
    return {static_cast<uint32_t>(i), static_cast<uint32_t>(token)};
  }
};
struct FromEntries {
  const TokenEntry* entries;
  __device__ TokenEntry operator()(int64_t i) const { return entries[i]; }
};

__device__ __forceinline__ uint32_t digit(TokenEntry entry, int shift) { return entry.token >> shift & (kDigits - 1); }

// Calls f(round, i) for the entries of this thread; those of a warp are contiguous, 32 per round.
template <class F>
__device__ __forceinline__ void for_each_round(F f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kSortTile + warp * (kWarp * kSortRounds) + lane;
#pragma unroll
  for (int round = 0; round < kSortRounds; ++round) f(round, first + round * kWarp);
}

// Prefix sum over the thread block: the sum over the threads before this one, and over all.
struct Scan {
  uint32_t before, all;
};
__device__ __forceinline__ Scan scan_over_block(uint32_t value) {
  __shared__ uint32_t sums[kSortWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  uint32_t sum = value;
#pragma unroll
  for (int offset = 1; offset < kWarp; offset *= 2) {
    const uint32_t other = __shfl_up_sync(kFullWarp, sum, offset);
    if (lane >= offset) sum += other;
  }
  __syncthreads();  // all threads are done with the previous `sums`
  if (lane == kWarp - 1) sums[warp] = sum;
  __syncthreads();
  Scan result{sum - value, 0};
#pragma unroll
  for (int other = 0; other < kSortWarps; ++other) {
    if (other < warp) result.before += sums[other];
    result.all += sums[other];
  }
  return result;
}

// counts: (digits, tiles)
template <class Source>
__global__ void __launch_bounds__(kSortThreads)
    count_digits_kernel(uint32_t* counts, Source source, int64_t count, int shift) {
  __shared__ uint32_t bins[kDigits];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for_each_round([&](int, int64_t i) {
    if (i < count) atomicAdd(&bins[digit(source(i), shift)], 1u);
  });
  __syncthreads();
  counts[static_cast<int64_t>(threadIdx.x) * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

// Exclusive prefix sum over the tiles, in place; one thread block per digit. totals (digits): the sum over all tiles.
static __global__ void __launch_bounds__(kSortThreads)
    add_tiles_before_kernel(uint32_t* counts, uint32_t* totals, int64_t tiles) {
  uint32_t* of_digit = counts + blockIdx.x * tiles;
  uint32_t total = 0;
  for (int64_t first = 0; first < tiles; first += kSortThreads) {
    const int64_t tile = first + threadIdx.x;
    const Scan scan = scan_over_block(tile < tiles ? of_digit[tile] : 0);
    if (tile < tiles) of_digit[tile] = total + scan.before;
    total += scan.all;
  }
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

// Bit mask of the lanes of this warp with the same digit as this lane, among those that hold an entry.
__device__ __forceinline__ unsigned lanes_with(uint32_t digit, bool holds) {
  unsigned lanes = __ballot_sync(kFullWarp, holds);
#pragma unroll
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const unsigned set = __ballot_sync(kFullWarp, is_set);
    lanes &= is_set ? set : ~set;
  }
  return lanes;
}

template <class Source>
__global__ void __launch_bounds__(kSortThreads) place_kernel(TokenEntry* to, Source source, int64_t count, int shift,
                                                             const uint32_t* counts, const uint32_t* totals) {
  __shared__ uint32_t next[kSortWarps][kDigits];  // destination of a warp's next entry of each digit
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) next[w][threadIdx.x] = 0;
  __syncthreads();
  TokenEntry entries[kSortRounds] = {};
  for_each_round([&](int round, int64_t i) {
    if (i >= count) return;
    entries[round] = source(i);
    atomicAdd(&next[warp][digit(entries[round], shift)], 1u);
  });
  // The first place of the digit: after all smaller digits, and the same digit in tiles before; then warp by warp.
  uint32_t place =
      scan_over_block(totals[threadIdx.x]).before + counts[static_cast<int64_t>(threadIdx.x) * gridDim.x + blockIdx.x];
#pragma unroll
  for (int w = 0; w < kSortWarps; ++w) {
    const uint32_t of_warp = next[w][threadIdx.x];
    next[w][threadIdx.x] = place;
    place += of_warp;
  }
  __syncthreads();
  for_each_round([&](int round, int64_t i) {
    const uint32_t mine = digit(entries[round], shift);
    const unsigned lanes = lanes_with(mine, i < count);
    const int before = __popc(lanes & ((1u << lane) - 1));
    if (i < count) to[next[warp][mine] + before] = entries[round];
    __syncwarp();
    if (i < count && before == 0) next[warp][mine] += __popc(lanes);
    __syncwarp();
  });
}

template <class Source>
void sort_by_digit(const Context& context, TokenEntry* to, Source source, int64_t count, int shift) {
  const unsigned tiles = blocks_for(count, kSortTile);
  const Scratch<uint32_t> counts(context, int64_t{kDigits} * tiles), totals(context, kDigits);
  launch(count_digits_kernel<Source>, {tiles, kSortThreads}, counts.data(), source, count, shift);
  launch(add_tiles_before_kernel, {kDigits, kSortThreads}, counts.data(), totals.data(), int64_t{tiles});
  launch(place_kernel<Source>, {tiles, kSortThreads}, to, source, count, shift, counts.data(), totals.data());
}

// Stable sort of (token i, row i), i = 0 … count - 1, by token. A token outside [0, vocabulary) becomes token
// `vocabulary` without a row, at the end. Throws ShapeError for 2^32 - 1 tokens or more.
class SortedTokens {
 public:
  SortedTokens(const Context& context, const int32_t* tokens, int64_t count, int64_t vocabulary);
  const TokenEntry* entries() const { return sorted_; }

 private:
  Scratch<TokenEntry> a_, b_;
  const TokenEntry* sorted_ = nullptr;
};

inline SortedTokens::SortedTokens(const Context& context, const int32_t* tokens, int64_t count, int64_t vocabulary)
    : a_(context, count), b_(context, count) {
  require<ShapeError>(count < TokenEntry::kNoRow, "embedding: {} tokens are too many to sort", count);
  if (count == 0) return;
  sort_by_digit(context, a_.data(), FromTokens{tokens, vocabulary}, count, 0);
  TokenEntry *from = a_.data(), *to = b_.data();
  const int bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(vocabulary)));
  for (int shift = kDigitBits; shift < bits; shift += kDigitBits) {
    sort_by_digit(context, to, FromEntries{from}, count, shift);
    std::swap(from, to);
  }
  sorted_ = from;
}

}  // namespace heed::cuda
