// Block sizes of pair_gemm().
#pragma once

#include <algorithm>

#include "autograd/core/shape.hpp"
#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// The register tile: MR and NR of AVX-512.
inline constexpr int64_t kPairRows = 8, kPairColumns = 32;
// A in place: the largest k for which a panel and kPairRows rows still fit in the caches.
inline constexpr int64_t kMostPairK = 8192;
// A^T B: the range of k that is packed at a time, and its blocks of A (MC) and B (NC), which fit in L2 together.
inline constexpr int64_t kPairK = 512, kPairMC = 256, kPairNC = 512;
// The scratch buffer of a thread for these two blocks, in pairs.
inline constexpr int64_t kPartScratch = (kPairMC + kPairNC) * kPairK / 2;

// The number of panels of B that stay in L2 while a work item multiplies its rows with them.
inline int64_t panels_in_group(const Gemm<Bf16>& g) {
  constexpr int64_t kBytes = 384 << 10;
  return std::max<int64_t>(1, kBytes / (kPairColumns * g.k * static_cast<int64_t>(sizeof(Bf16))));
}

// Rows of a work item: enough to reuse a group of panels, few enough that they stay in L2 and all threads have work.
inline int64_t rows_in_item(const Gemm<Bf16>& g) {
  constexpr int64_t kMostRows = 128, kItemsPerThread = 4;
  const int64_t even = ceil_divide(g.m, kItemsPerThread * max_threads());
  return round_up(std::clamp<int64_t>(even, kPairRows, kMostRows), kPairRows);
}

}  // namespace heed::cpu
