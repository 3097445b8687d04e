// Forward on tensor cores, bf16 (after Dao 2023, "FlashAttention-2").
//
// Threads: a block has 128 queries of one head in 4 warps of 32 (attention_mma.cuh) and runs over the tiles of 64 keys
// (32 where heads are wider than 64) that any of them sees; a warp passes over those that none of its queries sees.
// Copies run ahead: values arrive while scores are made, the next keys while weights are made and summed with values.
// Memory: q and y once; k and v once for each 128 queries, mostly from the second-level cache. At most 51 KiB of
// shared memory, two blocks on a multiprocessor, by registers.
// Work: 4 Tq Tk D FLOPs a head, half of it where causal, and a power of 2 for each weight. For 16 products, 16 cycles
// of the tensor cores of an H100 at their peak, shared memory is read for 24 cycles in scores and 16 in sums. One
// block's powers, 16 a cycle, overlap with the other's products. So the bound is that of mma.sync, about 60 % of the
// peak in bf16.
// Numbers: scores and sums in f32, weights rounded to bf16 for the second product.
// Order: keys ascending; no row depends on another one, nor on the grid.
// NaN: a weight of 0 does not hide a NaN or Inf of a masked value, which a row may meet where a tile is seen in part.
// So if any sum of the block is NaN, all is done again with add_seen() in such tiles.
#include "autograd/cuda/launch.cuh"
#include "autograd/ops/attention/attention_mma.cuh"
#include "autograd/ops/attention/attention_path.hpp"
#include "autograd/ops/attention/attention_softmax.cuh"

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
};

struct Forward {
  AttentionShape shape;
  HeadsOf<void> y;
  float* lse;
  ConstHeads q, k, v;
};

// The softmax of the rows of a lane, each in four lanes.
struct SoftmaxRows {
  OnlineSoftmax row[kBlocks][2];

  // Scores, in units of scale > 0, become weights; what was summed before is scaled to the new maximum.
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
__device__ __forceinline__ void mask_scores(Fragment<kBlocks, kKeys>& scores, const SeenByFragment<kBlocks>& seen) {
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

// A block's work: its queries over all keys that they see.
template <int kColumns>
class ForwardBlock {
 public:
  __device__ ForwardBlock(const Forward& p, ForwardTiles<kColumns>& tiles)
      : p_(p),
        tiles_(tiles),
        place_(place_of(blockIdx.x, p.shape.batch, p.shape.heads, (p.shape.queries + kQueries - 1) / kQueries, true)),
        sight_(mask_of(p.shape, place_.batch).of_queries),
        query_(place_.tile * kQueries + warp_of_thread() * kRowsOfWarp) {}

  __device__ void run() {
    const int first = place_.tile * kQueries;
    tiles_.q.load_async(rows_of<__nv_bfloat16>(p_.q, place_.batch, place_.head), p_.shape.head_size, first, part());
    const Span keys = sight_.of_any({first, first + kQueries});
#pragma unroll 1
    for (int exact = 0; exact < 2; ++exact) {
      run_over(keys, exact > 0);
      if (!p_.shape.causal || !__syncthreads_or(sums_.holds_nan())) break;
    }
    finish();
  }

 private:
  static constexpr int kKeys = keys_of_tile<kColumns>;

  __device__ Span part() const { return {sight_.first_row, sight_.end_row}; }

  __device__ __forceinline__ void run_over(Span keys, bool exact) {
    const int kv_head = place_.head / (p_.shape.heads / p_.shape.kv_heads);
    const auto k = rows_of<__nv_bfloat16>(p_.k, place_.batch, kv_head);
    const auto v = rows_of<__nv_bfloat16>(p_.v, place_.batch, kv_head);
    const Span queries{query_, query_ + kRowsOfWarp}, seen_by_warp = sight_.of_any(queries);
    sums_ = {};
    softmax_ = {};
    const int first = keys.begin / kKeys * kKeys;
    tiles_.k.load_async(k, p_.shape.head_size, first, keys);
    cp_async_commit();
    for (int key = first; key < keys.end; key += kKeys) {
      const bool takes_part = key + kKeys > seen_by_warp.begin && key < seen_by_warp.end;
      cp_async_wait<0>();
      __syncthreads();  // k is there, the last v is read
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
      __syncthreads();  // v is there, k is read
      if (key + kKeys < keys.end) tiles_.k.load_async(k, p_.shape.head_size, key + kKeys, keys);
      cp_async_commit();
      if (!takes_part) continue;
      const bool all = sight_.all(queries, {key, key + kKeys});
      if (p_.shape.scale_log2 < 0) weights.scale(-1);
      if (!all) mask_scores(weights, SeenByFragment<kBlocks>(sight_, query_, key));
      softmax_.take(weights, fabsf(p_.shape.scale_log2), sums_);
      if (p_.shape.drops) {
        weights.clear_unless([&](int m, int j, int e) { return (kept[m] >> (4 * j + e) & 1u) != 0; });
      }
      const PackedWeights<kBlocks, kKeys> packed(weights);
      if (exact && !all) {
        add_seen(packed, tiles_.v, sums_, sight_, query_, key);
      } else {
        add_weighted(packed, tiles_.v, sums_);
      }
    }
    cp_async_wait<0>();
  }

  __device__ __forceinline__ void finish() {
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
        p_.lse[head * p_.shape.queries + row] =
            row >= part().begin && row < part().end ? softmax.log_sum(total) : INFINITY;
      }
    }
    store_rows(rows_of<__nv_bfloat16>(p_.y, place_.batch, place_.head), p_.shape.head_size, query_, p_.shape.queries,
               part(), sums_, false);
  }

  const Forward& p_;
  ForwardTiles<kColumns>& tiles_;
  const Place place_;
  const Sight sight_;
  const int query_;  // the first of the warp
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
