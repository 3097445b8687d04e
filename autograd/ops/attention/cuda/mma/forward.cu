// Attention forward on tensor cores (mma.sync), bf16, after Dao 2023, "FlashAttention-2".
//
// Threads: a thread block of 4 warps with 32 queries each computes 128 queries of one head (cuda/mma/tile.cuh). It
// loops over the tiles of 64 keys (32 if the head size is above 64) in the key range of any of them; a warp skips tiles
// outside the key ranges of its queries. Copies are asynchronous: v is copied during S = q k^T, the next k during
// softmax and P v.
// Memory: q and y once; k and v once for each 128 queries, mostly from L2. At most 52 KiB of shared memory; the
// registers allow two thread blocks per multiprocessor.
// Work: 4 Tq Tk D FLOPs per head, half of that if causal, and one exp2 per element of P. 16 mma instructions take 16
// cycles of an H100's tensor cores at their peak; shared memory is read for 24 cycles for them in S and for 16 in P v.
// The exp2 of one thread block, 16 per cycle, overlap with the mma of the other. So the bound is that of mma.sync,
// about 60 % of the bf16 peak.
// Numbers: scores and accumulators in f32, P rounded to bf16 for the second GEMM.
// Order: keys ascending; a row depends neither on other rows nor on the grid.
// NaN: a probability of 0 does not hide a NaN or Inf of a masked value, which enters a row in a partially masked tile
// (only if masks_partially(): padding is loaded as 0). So if any accumulator of the thread block is NaN, everything is
// computed again, with add_seen() in partially masked tiles.
#include "autograd/cuda/launch.cuh"
#include "autograd/ops/attention/cuda/mma/tile.cuh"
#include "autograd/ops/attention/cuda/path.hpp"
#include "autograd/ops/attention/cuda/softmax.cuh"

namespace heed::cuda {
namespace {

constexpr int kBlocks = 2, kRowsOfWarp = 16 * kBlocks;
constexpr int kQueries = kRowsOfWarp * kMmaWarps;
template <int kColumns>
constexpr int keys_of_tile = kColumns <= 64 ? 64 : 32;

template <int kColumns>
struct ForwardTiles {
  static constexpr int kKeys = keys_of_tile<kColumns>;
  MmaTile<kQueries, kColumns> q;
  MmaTile<kKeys, kColumns> k, v;
  KeyRanges<kQueries> ranges;
};

struct Forward {
  AttentionShape shape;
  HeadsOf<void> y;
  float* lse;
  ConstHeads q, k, v;
};

// Online softmax of the rows of a lane; four lanes hold a row.
struct SoftmaxRows {
  OnlineSoftmax row[kBlocks][2];

  // Replaces scores, which are multiplied by scale > 0 here, with unnormalised probabilities, and rescales `sums` (the
  // accumulators of y) to the new maximum.
  template <int kKeys, int kColumns>
  __device__ __forceinline__ void take(Fragment<kBlocks, kKeys>& scores, float scale,
                                       Fragment<kBlocks, kColumns>& sums) {
#pragma unroll
    for (int n = 0; n < 2 * kBlocks; ++n) {
      OnlineSoftmax& softmax = row[n / 2][n % 2];
      const int e = n % 2 * 2;
      float highest = -INFINITY;
#pragma unroll
      for (const auto& block : scores.at[n / 2]) highest = fmaxf(block[e + 1], fmaxf(block[e], highest));
      highest = fmaxf(warp_reduce<4>(highest, Max{}) * scale, softmax.maximum);
      const float factor = softmax.raise(highest), base = softmax.base();
#pragma unroll
      for (auto& block : scores.at[n / 2]) {
        block[e] = power_of_2(block[e] * scale - base);
        block[e + 1] = power_of_2(block[e + 1] * scale - base);
        softmax.sum += block[e] + block[e + 1];
      }
#pragma unroll
      for (auto& block : sums.at[n / 2]) {
        block[e] *= factor;
        block[e + 1] *= factor;
      }
    }
  }
};

template <int kKeys>
__device__ __forceinline__ void mask_scores(Fragment<kBlocks, kKeys>& scores, const FragmentKeyRanges<kBlocks>& seen) {
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (!seen.sees(m, j, e)) scores.at[m][j][e] = -INFINITY;
      }
    }
  }
}

// The work of a thread block: its tile of queries, all keys in their ranges.
template <int kColumns>
class ForwardBlock {
 public:
  __device__ ForwardBlock(const Forward& p, ForwardTiles<kColumns>& tiles)
      : p_(p),
        tiles_(tiles),
        place_(place_of(blockIdx.x, p.shape.batch, p.shape.heads, (p.shape.queries + kQueries - 1) / kQueries, true)),
        query_(place_.tile * kQueries + warp_of_thread() * kRowsOfWarp) {}

  __device__ void run() {
    const int first = place_.tile * kQueries;
    const MaskRange mask_range = mask_of(p_.shape, place_.batch).of_queries;
    const Span keys = mask_range.of_any({first, first + kQueries}), queries{query_, query_ + kRowsOfWarp};
    tiles_.q.load_async(rows_of<__nv_bfloat16>(p_.q, place_.batch, place_.head), p_.shape.head_size, first,
                        {mask_range.first_row, mask_range.end_row});
    tiles_.ranges.set(mask_range, first);
#pragma unroll 1
    for (int exact = 0; exact < 2; ++exact) {
      run_over(keys, mask_range.of_any(queries), mask_range.of_all(queries), exact > 0);
      if (!masks_partially(p_.shape) || !__syncthreads_or(sums_.holds_nan())) break;
    }
    finish(part());
  }

 private:
  static constexpr int kKeys = keys_of_tile<kColumns>;

  __device__ Span part() const {
    const MaskRange mask_range = mask_of(p_.shape, place_.batch).of_queries;
    return {mask_range.first_row, mask_range.end_row};
  }

  __device__ __forceinline__ void run_over(Span keys, Span seen_by_warp, Span seen_by_all, bool exact) {
    const int kv_head = place_.head / (p_.shape.heads / p_.shape.kv_heads);
    const auto k = rows_of<__nv_bfloat16>(p_.k, place_.batch, kv_head);
    const auto v = rows_of<__nv_bfloat16>(p_.v, place_.batch, kv_head);
    const Span* ranges = tiles_.ranges.of + warp_of_thread() * kRowsOfWarp;
    sums_ = {};
    softmax_ = {};
    const int first = keys.begin / kKeys * kKeys;
    tiles_.k.load_async(k, p_.shape.head_size, first, keys);
    cp_async_commit();
    for (int key = first; key < keys.end; key += kKeys) {
      const bool takes_part = key + kKeys > seen_by_warp.begin && key < seen_by_warp.end;
      cp_async_wait<0>();
      __syncthreads();  // k has arrived, all warps have read the previous v
      tiles_.v.load_async(v, p_.shape.head_size, key, keys);
      cp_async_commit();
      unsigned kept[kBlocks] = {};
      if (takes_part && p_.shape.drops) {
        const KeptWeights words(p_.shape, place_.batch, place_.head);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) kept[m] = kept_of_query_rows<kKeys>(words, query_ + 16 * m, key);
      }
      Fragment<kBlocks, kKeys> weights{};
      if (takes_part) weights = products<kBlocks>(tiles_.q, warp_of_thread() * kRowsOfWarp, tiles_.k);
      cp_async_wait<0>();
      __syncthreads();  // v has arrived, all warps have read k
      if (key + kKeys < keys.end) tiles_.k.load_async(k, p_.shape.head_size, key + kKeys, keys);
      cp_async_commit();
      if (!takes_part) continue;
      const bool all = seen_by_all.contains({key, key + kKeys});
      float scale = fabsf(p_.shape.scale_log2);
      if (const Alibi alibi(p_.shape, place_.head); alibi.is_on()) {
        scale_and_add_bias<true>(weights, p_.shape.scale_log2, alibi, query_, key);
        scale = 1;
      } else if (p_.shape.scale_log2 < 0) {
        weights.scale(-1);
      }
      if (!all) mask_scores(weights, FragmentKeyRanges<kBlocks>(ranges, key));
      softmax_.take(weights, scale, sums_);
      if (p_.shape.drops) {
        weights.clear_unless([&](int m, int j, int e) { return (kept[m] >> (4 * j + e) & 1u) != 0; });
      }
      const PackedWeights<kBlocks, kKeys> packed(weights);
      if (exact && !all) {
        add_seen(packed, tiles_.v, sums_, ranges, key);
      } else {
        add_weighted(packed, tiles_.v, sums_);
      }
    }
    cp_async_wait<0>();
  }

  __device__ __forceinline__ void finish(Span part) {
#pragma unroll
    for (int n = 0; n < 2 * kBlocks; ++n) {
      const OnlineSoftmax& softmax = softmax_.row[n / 2][n % 2];
      const float total = warp_reduce<4>(softmax.sum, Sum{}), factor = __fdividef(p_.shape.keep_scale, total);
#pragma unroll
      for (auto& block : sums_.at[n / 2]) {
        block[n % 2 * 2] *= factor;
        block[n % 2 * 2 + 1] *= factor;
      }
      const int row = query_ + 8 * n + group();
      if (pair() == 0 && row < p_.shape.queries) {
        const int64_t head = static_cast<int64_t>(place_.batch) * p_.shape.heads + place_.head;
        p_.lse[head * p_.shape.queries + row] = row >= part.begin && row < part.end ? softmax.log_sum(total) : INFINITY;
      }
    }
    store_rows(rows_of<__nv_bfloat16>(p_.y, place_.batch, place_.head), p_.shape.head_size, query_, p_.shape.queries,
               part, sums_, false);
  }

  const Forward& p_;
  ForwardTiles<kColumns>& tiles_;
  const Place place_;
  const int query_;  // the first query of the warp
  Fragment<kBlocks, kColumns> sums_;
  SoftmaxRows softmax_;
};

template <int kColumns>
__global__ void __launch_bounds__(kMmaThreads, 2) attention_mma_kernel(const Forward p) {
  ForwardBlock<kColumns>(p, dynamic_shared<ForwardTiles<kColumns>>()).run();
}

template <int kColumns>
void run(const AttentionForward& p) {
  launch(
      attention_mma_kernel<kColumns>,
      {blocks_for(ceil_divide(p.problem.queries, kQueries) * p.problem.heads * p.problem.batch, 1), kMmaThreads,
       sizeof(ForwardTiles<kColumns>)},
      Forward{
          .shape = attention_shape(p.problem), .y = p.y, .lse = elements<float>(p.lse), .q = p.q, .k = p.k, .v = p.v});
}

}  // namespace

void tensor_core_attention_forward(const AttentionForward& p) {
  visit_columns(p.problem.head_size, [&](auto columns) {
    if constexpr (columns() <= kMostColumnsOnTensorCores) run<columns()>(p);
  });
}

}  // namespace heed::cuda
