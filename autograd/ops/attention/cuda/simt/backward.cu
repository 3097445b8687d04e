// Attention backward on CUDA cores (SIMT) in f32, for f32 and bf16 tensors and all head sizes up to 256. Recomputes the
// attention probabilities P = exp(scores - lse); with delta = rowsum(dY * Y),
//   dV = P^T dY    dS = P * (dY V^T - delta)    dK = scale dS^T Q    dQ = scale dS K
//
// Threads: two kernels of the same structure. A thread block of 128 threads owns a tile of rows (cuda/simt/tile.cuh)
// and loops over tiles of the other side: for dQ it owns queries and loops over keys; for dK and dV it owns keys and
// loops over the queries of all query heads of the group. P and dS, or their transposes, are computed in registers and
// passed through shared memory to the lanes of the same row.
// Memory: owned rows once; the other side once for each tile of owned rows, mostly from L2; each gradient is written
// once.
// Work: 7 GEMMs instead of 5, as both kernels compute P and dS: 14 Tq Tk D FLOPs per head, half of that if causal, on
// the f32 units, which are the bound.
// Order: dQ over ascending keys, dK and dV over ascending heads and queries. No atomics, so runs are bitwise
// reproducible.
#include "autograd/cuda/launch.cuh"
#include "autograd/ops/attention/cuda/path.hpp"
#include "autograd/ops/attention/cuda/simt/tile.cuh"
#include "autograd/ops/attention/cuda/softmax.cuh"

namespace heed::cuda {
namespace {

// At most 88 KiB of shared memory.
template <int kColumns>
struct BackwardTiles {
  static constexpr int kRows = kColumns <= 96 ? 64 : kColumns <= 128 ? 32 : 16;
  static constexpr int kOthers = kColumns <= 64 ? 64 : kColumns <= 128 ? 32 : 16;
  using Pairs = Sums<kRows, kOthers>;      // P or dS: own rows x rows of the other side
  using Gradient = Sums<kRows, kColumns>;  // of own rows
  struct Statistics {
    float lse_log2, delta;
  };

  Tile<kRows, kColumns> q_or_k, dy_or_v;  // own rows of the thread block
  Tile<kOthers, kColumns> other_k_or_q, other_v_or_dy;
  Tile<kRows, kOthers> pairs;
  Statistics of_query[kOthers];  // if the other side is queries
};

struct Backward {
  AttentionShape shape;
  GradientHeads dq, dk, dv;
  ConstHeads dy, q, k, v;
  const float *lse, *delta;
  RowFormat format;

  // lse = +inf for masked queries, so that their P is 0.
  template <class Statistics>
  __device__ Statistics statistics(const Place& place, int query, Span part) const {
    if (query < part.begin || query >= part.end) return {INFINITY, 0};
    const int64_t head = static_cast<int64_t>(place.batch) * shape.heads + place.head;
    return {lse[head * shape.queries + query] * kLog2E, delta[head * shape.queries + query]};
  }
};

// Replaces the scores with P (after dropout) and products = dY V^T with dS. statistics(i, j) returns lse and delta of
// the query of element (i, j), bias(i, j) the bias of its score.
template <class Pairs, class Sees, class StatisticsOf, class BiasOf>
__device__ __forceinline__ void weigh(const AttentionShape& shape, Pairs& scores, Pairs& products, unsigned kept,
                                      const Sees& sees, const StatisticsOf& statistics, const BiasOf& bias) {
  constexpr int kMine = sizeof(scores.at) / sizeof(scores.at[0]), kEach = sizeof(scores.at[0]) / sizeof(float);
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const auto [lse_log2, delta] = statistics(i, j);
      const bool is_kept = kept >> (i + kMine * j) & 1u, is_seen = sees(i, j);
      const float weight = is_seen ? power_of_2(scores.at[i][j] * shape.scale_log2 + (bias(i, j) - lse_log2)) : 0.0f;
      const float dweight = is_kept ? products.at[i][j] * shape.keep_scale : 0.0f;
      scores.at[i][j] = is_kept ? weight : 0.0f;
      products.at[i][j] = is_seen ? weight * (dweight - delta) : 0.0f;
    }
  }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kTileThreads) query_gradient_kernel(const Backward p) {
  using Tiles = BackwardTiles<kColumns>;
  constexpr int kRows = Tiles::kRows, kOthers = Tiles::kOthers, kMine = kRows / kGroups;
  Tiles& tiles = dynamic_shared<Tiles>();
  const AttentionShape& shape = p.shape;
  const Place place = place_of(blockIdx.x, shape.batch, shape.heads, (shape.queries + kRows - 1) / kRows, true);
  const MaskRange mask_range = mask_of(shape, place.batch).of_queries;
  const int kv_head = place.head / (shape.heads / shape.kv_heads), query = place.tile * kRows;
  const Span queries{query, query + kRows}, part{mask_range.first_row, mask_range.end_row},
      keys = mask_range.of_any(queries);
  const auto k = rows_of<T>(p.k, place.batch, kv_head), v = rows_of<T>(p.v, place.batch, kv_head);
  const KeptWeights words(shape, place.batch, place.head);
  const Alibi alibi(shape, place.head);

  load_tile(tiles.q_or_k, rows_of<T>(p.q, place.batch, place.head), p.format, query, part);
  load_tile(tiles.dy_or_v, rows_of<T>(p.dy, place.batch, place.head), p.format, query, part);
  typename Tiles::Statistics statistics[kMine];
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    statistics[i] = p.statistics<typename Tiles::Statistics>(place, query + row_of<kRows>(i), part);
  }
  typename Tiles::Gradient dq{};
  for (int key = keys.begin / kOthers * kOthers; key < keys.end; key += kOthers) {
    __syncthreads();  // all threads have read the previous k and v
    load_tile(tiles.other_k_or_q, k, p.format, key, keys);
    load_tile(tiles.other_v_or_dy, v, p.format, key, keys);
    __syncthreads();
    const bool all = mask_range.all(queries, {key, key + kOthers});
    const RowKeyRanges<kRows> seen(mask_range, query, key);
    auto scores = products(tiles.q_or_k, tiles.other_k_or_q), dscores = products(tiles.dy_or_v, tiles.other_v_or_dy);
    const unsigned kept = shape.drops ? kept_of_queries<kRows, kOthers>(words, query, key) : ~0u;
    weigh(
        shape, scores, dscores, kept, [&](int i, int j) { return all || seen.sees(i, j); },
        [&](int i, int) { return statistics[i]; },
        [&](int i, int j) { return alibi.bias(query + row_of<kRows>(i), key + lane_of_group() + kLanes * j); });
    store_weights(tiles.pairs, dscores);
    __syncwarp();
    add_weighted(tiles.pairs, tiles.other_k_or_q, dq, all, seen);
    __syncwarp();  // all lanes have read `pairs`
  }
  scale_sums(dq, shape.scale);
  store_tile(rows_of<T>(p.dq, place.batch, place.head), p.format, query, shape.queries, part, dq, p.dq.add);
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kTileThreads) key_gradient_kernel(const Backward p) {
  using Tiles = BackwardTiles<kColumns>;
  constexpr int kRows = Tiles::kRows, kOthers = Tiles::kOthers;
  Tiles& tiles = dynamic_shared<Tiles>();
  const AttentionShape& shape = p.shape;
  const Place place = place_of(blockIdx.x, shape.batch, shape.kv_heads, (shape.keys + kRows - 1) / kRows, false);
  const MaskRange mask_range = mask_of(shape, place.batch).of_keys;
  const int key = place.tile * kRows, group = shape.heads / shape.kv_heads;
  const Span keys{key, key + kRows}, part{mask_range.first_row, mask_range.end_row}, queries = mask_range.of_any(keys);

  load_tile(tiles.q_or_k, rows_of<T>(p.k, place.batch, place.head), p.format, key, part);
  load_tile(tiles.dy_or_v, rows_of<T>(p.v, place.batch, place.head), p.format, key, part);
  typename Tiles::Gradient dk{}, dv{};
  for (int head = place.head * group; head < (place.head + 1) * group; ++head) {
    const auto q = rows_of<T>(p.q, place.batch, head), dy = rows_of<T>(p.dy, place.batch, head);
    const KeptWeights words(shape, place.batch, head);
    const Alibi alibi(shape, head);
    for (int query = queries.begin / kOthers * kOthers; query < queries.end; query += kOthers) {
      __syncthreads();  // all threads have read the previous q and dy
      load_tile(tiles.other_k_or_q, q, p.format, query, queries);
      load_tile(tiles.other_v_or_dy, dy, p.format, query, queries);
      for (int i = static_cast<int>(threadIdx.x); i < kOthers; i += kTileThreads) {
        tiles.of_query[i] =
            p.statistics<typename Tiles::Statistics>({place.batch, head, place.tile}, query + i, queries);
      }
      __syncthreads();
      const bool all = mask_range.all(keys, {query, query + kOthers});
      const RowKeyRanges<kRows> seen(mask_range, key, query);
      auto scores = products(tiles.q_or_k, tiles.other_k_or_q), dscores = products(tiles.dy_or_v, tiles.other_v_or_dy);
      const unsigned kept = shape.drops ? kept_of_keys<kRows, kOthers>(words, key, query) : ~0u;
      weigh(
          shape, scores, dscores, kept, [&](int i, int j) { return all || seen.sees(i, j); },
          [&](int, int j) { return tiles.of_query[lane_of_group() + kLanes * j]; },
          [&](int i, int j) { return alibi.bias(query + lane_of_group() + kLanes * j, key + row_of<kRows>(i)); });
      if (p.dv.data != nullptr) {
        store_weights(tiles.pairs, scores);
        __syncwarp();
        add_weighted(tiles.pairs, tiles.other_v_or_dy, dv, all, seen);
        __syncwarp();  // all lanes have read `pairs`
      }
      if (p.dk.data != nullptr) {
        store_weights(tiles.pairs, dscores);
        __syncwarp();
        add_weighted(tiles.pairs, tiles.other_k_or_q, dk, all, seen);
        __syncwarp();
      }
    }
  }
  if (p.dk.data != nullptr) {
    scale_sums(dk, shape.scale);
    store_tile(rows_of<T>(p.dk, place.batch, place.head), p.format, key, shape.keys, part, dk, p.dk.add);
  }
  if (p.dv.data != nullptr) {
    scale_sums(dv, shape.keep_scale);
    store_tile(rows_of<T>(p.dv, place.batch, place.head), p.format, key, shape.keys, part, dv, p.dv.add);
  }
}

template <class T, int kColumns>
void run(const AttentionBackward& p, const float* delta) {
  using Tiles = BackwardTiles<kColumns>;
  const Backward parameters{.shape = attention_shape(p.problem),
                            .dq = p.dq,
                            .dk = p.dk,
                            .dv = p.dv,
                            .dy = p.dy,
                            .q = p.q,
                            .k = p.k,
                            .v = p.v,
                            .lse = elements<float>(p.lse),
                            .delta = delta,
                            .format = row_format<T>(p.problem, p.dq, p.dk, p.dv, p.dy, p.q, p.k, p.v)};
  const auto run_over = [&](auto kernel, int64_t rows, int64_t heads) {
    const int64_t blocks = ceil_divide(rows, Tiles::kRows) * heads * p.problem.batch;
    if (blocks > 0) launch(kernel, {blocks_for(blocks, 1), kTileThreads, sizeof(Tiles)}, parameters);
  };
  if (p.dk || p.dv) run_over(key_gradient_kernel<T, kColumns>, p.problem.keys, p.problem.kv_heads);
  if (p.dq) run_over(query_gradient_kernel<T, kColumns>, p.problem.queries, p.problem.heads);
}

}  // namespace

void generic_attention_backward(const AttentionBackward& p, const float* delta) {
  visit_elements("attention", p.problem.dtype, [&](auto zero) {
    visit_columns(p.problem.head_size, [&](auto columns) { run<decltype(zero), columns()>(p, delta); });
  });
}

}  // namespace heed::cuda
