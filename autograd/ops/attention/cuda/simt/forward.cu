// Attention forward on CUDA cores (SIMT) in f32, for f32 and bf16 tensors and all head sizes up to 256.
//
// Threads: a thread block of 128 threads computes a tile of queries of one head (cuda/simt/tile.cuh) and loops over the
// key tiles in the key range of any of them. Scores and the softmax stay in registers, 16 lanes per row; P is passed
// through shared memory to the lanes of the same row.
// Memory: q and y once; k and v once for each query tile, mostly from L2.
// Work: 4 Tq Tk D FLOPs per head, half of that if causal, on the f32 units. They are the bound: counting the reads of
// shared memory, 60 to 80 % of their peak.
// Order: keys ascending; a row depends neither on other rows nor on the grid.
#include "autograd/cuda/launch.cuh"
#include "autograd/ops/attention/cuda/path.hpp"
#include "autograd/ops/attention/cuda/simt/tile.cuh"
#include "autograd/ops/attention/cuda/softmax.cuh"

namespace heed::cuda {
namespace {

// Tile sizes; at most 96 KiB of shared memory.
template <int kColumns>
struct ForwardTiles {
  static constexpr int kQueries = kColumns <= 128 ? 64 : 32, kKeys = kColumns <= 96 ? 64 : kColumns <= 128 ? 32 : 16;
  Tile<kQueries, kColumns> q;
  Tile<kKeys, kColumns> k, v;
  Tile<kQueries, kKeys> weights;
};

struct Forward {
  AttentionShape shape;
  HeadsOf<void> y;
  float* lse;
  ConstHeads q, k, v;
  RowFormat format;
};

// Online softmax of the rows of a thread.
template <int kQueries>
struct SoftmaxRows {
  OnlineSoftmax row[kQueries / kGroups];

  // Replaces scores with unnormalised probabilities and rescales `sums` (the accumulators of y) to the new maximum.
  template <int kKeys, int kColumns>
  __device__ void take(Sums<kQueries, kKeys>& scores, Sums<kQueries, kColumns>& sums) {
#pragma unroll
    for (int i = 0; i < kQueries / kGroups; ++i) {
      float highest = row[i].maximum;
#pragma unroll
      for (float score : scores.at[i]) highest = fmaxf(score, highest);
      const float factor = row[i].raise(warp_reduce<kLanes>(highest, Max{})), base = row[i].base();
#pragma unroll
      for (float& score : scores.at[i]) row[i].sum += score = power_of_2(score - base);
#pragma unroll
      for (float& sum : sums.at[i]) sum *= factor;
    }
  }
};

// Scales the scores of queries `query` and following with keys `key` and following, and adds ALiBi's bias; masked
// scores become -Inf.
template <int kQueries, int kKeys>
__device__ void finish_scores(Sums<kQueries, kKeys>& scores, float scale, const Alibi& alibi, bool all,
                              const RowKeyRanges<kQueries>& seen, int query, int key) {
#pragma unroll
  for (int i = 0; i < kQueries / kGroups; ++i) {
#pragma unroll
    for (int j = 0; j < kKeys / kLanes; ++j) {
      const float score =
          scores.at[i][j] * scale + alibi.bias(query + row_of<kQueries>(i), key + lane_of_group() + kLanes * j);
      scores.at[i][j] = all || seen.sees(i, j) ? score : -INFINITY;
    }
  }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kTileThreads) attention_kernel(const Forward p) {
  using Tiles = ForwardTiles<kColumns>;
  constexpr int kQueries = Tiles::kQueries, kKeys = Tiles::kKeys, kMine = kQueries / kGroups;
  Tiles& tiles = dynamic_shared<Tiles>();
  const AttentionShape& shape = p.shape;
  const Place place = place_of(blockIdx.x, shape.batch, shape.heads, (shape.queries + kQueries - 1) / kQueries, true);
  const MaskRange mask_range = mask_of(shape, place.batch).of_queries;
  const int kv_head = place.head / (shape.heads / shape.kv_heads), query = place.tile * kQueries;
  const Span queries{query, query + kQueries}, part{mask_range.first_row, mask_range.end_row},
      keys = mask_range.of_any(queries);
  const auto k = rows_of<T>(p.k, place.batch, kv_head), v = rows_of<T>(p.v, place.batch, kv_head);
  const KeptWeights words(shape, place.batch, place.head);
  const Alibi alibi(shape, place.head);

  load_tile(tiles.q, rows_of<T>(p.q, place.batch, place.head), p.format, query, part);
  Sums<kQueries, kColumns> sums{};
  SoftmaxRows<kQueries> softmax;
  for (int key = keys.begin / kKeys * kKeys; key < keys.end; key += kKeys) {
    __syncthreads();  // all threads have read the previous k and v
    load_tile(tiles.k, k, p.format, key, keys);
    load_tile(tiles.v, v, p.format, key, keys);
    __syncthreads();
    const bool all = mask_range.all(queries, {key, key + kKeys});
    const RowKeyRanges<kQueries> seen(mask_range, query, key);
    auto weights = products(tiles.q, tiles.k);
    finish_scores(weights, shape.scale_log2, alibi, all, seen, query, key);
    softmax.take(weights, sums);
    if (shape.drops) drop(weights, kept_of_queries<kQueries, kKeys>(words, query, key));
    store_weights(tiles.weights, weights);
    __syncwarp();
    add_weighted(tiles.weights, tiles.v, sums, all, seen);
    __syncwarp();  // all lanes have read the probabilities
  }

#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int row = query + row_of<kQueries>(i);
    const float total = warp_reduce<kLanes>(softmax.row[i].sum, Sum{}), factor = shape.keep_scale / total;
#pragma unroll
    for (float& sum : sums.at[i]) sum *= factor;
    if (lane_of_group() == 0 && row < shape.queries) {
      const int64_t head = static_cast<int64_t>(place.batch) * shape.heads + place.head;
      p.lse[head * shape.queries + row] =
          row >= part.begin && row < part.end ? softmax.row[i].log_sum(total) : INFINITY;
    }
  }
  store_tile(rows_of<T>(p.y, place.batch, place.head), p.format, query, shape.queries, part, sums, false);
}

template <class T, int kColumns>
void run(const AttentionForward& p) {
  using Tiles = ForwardTiles<kColumns>;
  const int64_t tiles = ceil_divide(p.problem.queries, Tiles::kQueries);
  launch(attention_kernel<T, kColumns>,
         {blocks_for(tiles * p.problem.heads * p.problem.batch, 1), kTileThreads, sizeof(Tiles)},
         Forward{.shape = attention_shape(p.problem),
                 .y = p.y,
                 .lse = elements<float>(p.lse),
                 .q = p.q,
                 .k = p.k,
                 .v = p.v,
                 .format = row_format<T>(p.problem, p.y, p.q, p.k, p.v)});
}

}  // namespace

void generic_attention_forward(const AttentionForward& p) {
  visit_elements("attention", p.problem.dtype, [&](auto zero) {
    visit_columns(p.problem.head_size, [&](auto columns) { run<decltype(zero), columns()>(p); });
  });
}

}  // namespace heed::cuda
