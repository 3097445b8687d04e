// Attention backward on tensor cores (mma.sync), bf16. The same two kernels as in cuda/simt/backward.cu:
//   dV = P^T dY    dS = P * (dY V^T - delta)    dK = scale dS^T Q    dQ = scale dS K    delta = rowsum(dY * Y)
//
// Threads: a thread block of 4 warps owns 128 rows, 32 per warp, or 64 rows, 16 per warp, if the head size is above 64.
// It loops over tiles of 32 rows of the other side: for dQ it owns queries and loops over keys; for dK and dV it owns
// keys and loops over the queries of all query heads of the group. P and dS, or their transposes, stay in the registers
// of the warp that computes them and are rounded to bf16 as the A operand of the next GEMM (cuda/mma/tile.cuh). Double
// buffering: the next tile is copied during the computation on this one, with one barrier per tile. A warp skips tiles
// outside the ranges of its rows.
// Memory: owned rows once; the other side once for each tile of owned rows, mostly from L2; each gradient is written
// once. At most 70 KiB of shared memory; the registers allow two thread blocks per multiprocessor.
// Work: 7 GEMMs instead of 5, as both kernels compute P and dS: 14 Tq Tk D FLOPs per head, half of that if causal. The
// bound is reading shared memory. Head size 64: 192 cycles per 128 mma instructions for dK and dV, which take the
// tensor cores of an H100 128 cycles at their peak, and 160 cycles per 96 for dQ. Head size 128: 320 and 256 cycles.
// This limits the kernels to 60 to 67 % of the bf16 peak, which is what mma.sync reaches, or to 37 to 40 %.
// Order: dQ over ascending keys, dK and dV over ascending heads and queries. No atomics, so runs are bitwise
// reproducible.
// NaN: as in cuda/mma/forward.cu, if any accumulator is NaN (and masks_partially()), everything is computed again, with
// an exact mask in partially masked tiles.
#include "autograd/cuda/launch.cuh"
#include "autograd/ops/attention/cuda/mma/tile.cuh"
#include "autograd/ops/attention/cuda/path.hpp"
#include "autograd/ops/attention/cuda/softmax.cuh"

namespace heed::cuda {
namespace {

constexpr int kOthers = 32;

struct alignas(8) Statistics {
  float lse_log2, delta;
};

// Ranges of queries for dK and dV: those that see any key of the thread block, any key of the warp, all keys of the
// warp. They are in shared memory to leave the registers to the sums.
struct QueriesOfWarp {
  Span of_block, of_any, of_all;
};

template <int kColumns>
struct BackwardTiles {
  static constexpr int kBlocks = kColumns <= 64 ? 2 : 1, kRows = 16 * kBlocks * kMmaWarps;
  MmaTile<kRows, kColumns> q_or_k, dy_or_v;  // own rows of the thread block
  struct Other {
    MmaTile<kOthers, kColumns> k_or_q, v_or_dy;
    Statistics of_query[kOthers];  // if the other side is queries
  } other[2];                      // double buffer
  KeyRanges<kRows> ranges;         // of the own rows
  QueriesOfWarp queries[kMmaWarps];
};

struct Backward {
  AttentionShape shape;
  GradientHeads dq, dk, dv;
  ConstHeads dy, q, k, v;
  const float *lse, *delta;

  // lse = +inf for masked queries, so that their P is 0.
  __device__ Statistics statistics(int batch, int head, int query, Span part) const {
    if (query < part.begin || query >= part.end) return {INFINITY, 0};
    const int64_t index = (static_cast<int64_t>(batch) * shape.heads + head) * shape.queries + query;
    return {lse[index] * kLog2E, delta[index]};
  }
};

// Replaces the scores, which are multiplied by `scale` here, with P (after dropout) and products = dY V^T with dS.
// of_query(m, j, e) returns lse and delta of the query of the element.
template <int kBlocks, class OfQuery>
__device__ __forceinline__ void weigh(const AttentionShape& shape, float scale, Fragment<kBlocks, kOthers>& scores,
                                      Fragment<kBlocks, kOthers>& products, bool all,
                                      const FragmentKeyRanges<kBlocks>& seen, const unsigned (&kept)[kBlocks],
                                      const OfQuery& of_query) {
  const auto is_seen = [&](int m, int j, int e) { return seen.sees(m, j, e); };
  const auto is_kept = [&](int m, int j, int e) { return (kept[m] >> (4 * j + e) & 1u) != 0; };
  if (shape.drops) products.clear_unless(is_kept);
#pragma unroll
  for (int m = 0; m < kBlocks; ++m) {
#pragma unroll
    for (int j = 0; j < kOthers / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Statistics statistics = of_query(m, j, e);
        float &weight = scores.at[m][j][e], &product = products.at[m][j][e];
        weight = power_of_2(weight * scale - statistics.lse_log2);
        product = weight * (product * shape.keep_scale - statistics.delta);
      }
    }
  }
  if (!all) {
    scores.clear_unless(is_seen);
    products.clear_unless(is_seen);
  }
  if (shape.drops) scores.clear_unless(is_kept);
}

// sums += pairs * tile, for the rows of a warp with these ranges and the rows of the tile, `column` and following.
template <int kBlocks, int kColumns>
__device__ __forceinline__ void add_pairs(const PackedWeights<kBlocks, kOthers>& pairs,
                                          const MmaTile<kOthers, kColumns>& tile, Fragment<kBlocks, kColumns>& sums,
                                          bool exact, const Span* ranges, int column) {
  if (exact) {
    add_seen(pairs, tile, sums, ranges, column);
  } else {
    add_weighted(pairs, tile, sums);
  }
}

template <int kColumns>
__global__ void __launch_bounds__(kMmaThreads, 2) query_gradient_mma_kernel(const Backward p) {
  using Tiles = BackwardTiles<kColumns>;
  constexpr int kBlocks = Tiles::kBlocks, kRows = Tiles::kRows;
  Tiles& tiles = dynamic_shared<Tiles>();
  const AttentionShape& shape = p.shape;
  const Place place = place_of(blockIdx.x, shape.batch, shape.heads, (shape.queries + kRows - 1) / kRows, true);
  const MaskRange mask_range = mask_of(shape, place.batch).of_queries;
  const int kv_head = place.head / (shape.heads / shape.kv_heads), query = place.tile * kRows;
  const int row = warp_of_thread() * 16 * kBlocks, first = query + row;  // the warp's, in tile and sequence
  const Span part{mask_range.first_row, mask_range.end_row}, mine{first, first + 16 * kBlocks};
  const Span keys = mask_range.of_any({query, query + kRows}), keys_of_warp = mask_range.of_any(mine);
  const Span keys_of_all = mask_range.of_all(mine);
  const Span* ranges = tiles.ranges.of + row;
  const auto k = rows_of<__nv_bfloat16>(p.k, place.batch, kv_head);
  const auto v = rows_of<__nv_bfloat16>(p.v, place.batch, kv_head);
  const auto load = [&](int buffer, int key) {
    tiles.other[buffer].k_or_q.load_async(k, shape.head_size, key, keys);
    tiles.other[buffer].v_or_dy.load_async(v, shape.head_size, key, keys);
  };
  tiles.q_or_k.load_async(rows_of<__nv_bfloat16>(p.q, place.batch, place.head), shape.head_size, query, part);
  tiles.dy_or_v.load_async(rows_of<__nv_bfloat16>(p.dy, place.batch, place.head), shape.head_size, query, part);
  cp_async_commit();
  tiles.ranges.set(mask_range, query);
  const Alibi alibi(shape, place.head);
  Statistics statistics[kBlocks][2];
#pragma unroll
  for (int n = 0; n < 2 * kBlocks; ++n) {
    statistics[n / 2][n % 2] = p.statistics(place.batch, place.head, first + 8 * n + group(), part);
  }

  Fragment<kBlocks, kColumns> dq;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    dq = {};
    int key = keys.begin / kOthers * kOthers, buffer = 0;
    if (key < keys.end) load(buffer, key);
    cp_async_commit();
    for (; key < keys.end; key += kOthers, buffer ^= 1) {
      cp_async_wait<0>();
      __syncthreads();  // this tile has arrived, all warps have read the previous one
      if (key + kOthers < keys.end) load(buffer ^ 1, key + kOthers);
      cp_async_commit();
      if (key + kOthers <= keys_of_warp.begin || key >= keys_of_warp.end) continue;
      const auto& other = tiles.other[buffer];
      unsigned kept[kBlocks] = {};
      if (shape.drops) {
        const KeptWeights words(shape, place.batch, place.head);
#pragma unroll
        for (int m = 0; m < kBlocks; ++m) kept[m] = kept_of_query_rows<kOthers>(words, first + 16 * m, key);
      }
      auto scores = products<kBlocks>(tiles.q_or_k, row, other.k_or_q);
      auto dscores = products<kBlocks>(tiles.dy_or_v, row, other.v_or_dy);
      const bool all = keys_of_all.contains({key, key + kOthers});
      if (alibi.is_on()) scale_and_add_bias<true>(scores, shape.scale_log2, alibi, first, key);
      weigh(shape, alibi.is_on() ? 1.0f : shape.scale_log2, scores, dscores, all,
            FragmentKeyRanges<kBlocks>(ranges, key), kept, [&](int m, int, int e) { return statistics[m][e / 2]; });
      add_pairs(PackedWeights(dscores), other.k_or_q, dq, pass > 0 && !all, ranges, key);
    }
    cp_async_wait<0>();
    if (!masks_partially(shape) || !__syncthreads_or(dq.holds_nan())) break;
  }
  dq.scale(shape.scale);
  store_rows(rows_of<__nv_bfloat16>(p.dq, place.batch, place.head), shape.head_size, first, shape.queries, part, dq,
             p.dq.add);
}

template <int kColumns>
__global__ void __launch_bounds__(kMmaThreads, 2) key_gradient_mma_kernel(const Backward p) {
  using Tiles = BackwardTiles<kColumns>;
  constexpr int kBlocks = Tiles::kBlocks, kRows = Tiles::kRows;
  Tiles& tiles = dynamic_shared<Tiles>();
  const AttentionShape& shape = p.shape;
  const Place place = place_of(blockIdx.x, shape.batch, shape.kv_heads, (shape.keys + kRows - 1) / kRows, false);
  const MaskRange mask_range = mask_of(shape, place.batch).of_keys;
  const int heads = shape.heads / shape.kv_heads, key = place.tile * kRows;
  const int row = warp_of_thread() * 16 * kBlocks, first = key + row;  // the warp's, in tile and sequence
  const Span part{mask_range.first_row, mask_range.end_row}, mine{first, first + 16 * kBlocks};
  const Span* ranges = tiles.ranges.of + row;
  const int thread = static_cast<int>(threadIdx.x);
  QueriesOfWarp& of_warp = tiles.queries[warp_of_thread()];
  if (lane_of_thread() == 0) {
    of_warp = {mask_range.of_any({key, key + kRows}), mask_range.of_any(mine), mask_range.of_all(mine)};
  }
  __syncwarp();
  Span queries = {};  // of_warp.of_block; set in each pass

  // The loop over query tiles, one head after the other.
  struct Step {
    int head, query;
  };
  const auto begin = [&] { return Step{place.head * heads, queries.begin / kOthers * kOthers}; };
  const auto end_head = [&] { return (queries.begin < queries.end ? place.head + 1 : place.head) * heads; };
  const auto after = [&](Step step) {
    return step.query + kOthers < queries.end ? Step{step.head, step.query + kOthers}
                                              : Step{step.head + 1, begin().query};
  };
  const auto load = [&](int buffer, Step step) {
    const auto q = rows_of<__nv_bfloat16>(p.q, place.batch, step.head);
    const auto dy = rows_of<__nv_bfloat16>(p.dy, place.batch, step.head);
    tiles.other[buffer].k_or_q.load_async(q, shape.head_size, step.query, queries);
    tiles.other[buffer].v_or_dy.load_async(dy, shape.head_size, step.query, queries);
  };
  // lse and delta are copied through registers: their rows lack the 16-byte alignment that cp_async_16() needs.
  const auto statistics = [&](Step step) {
    return thread < kOthers && step.head < end_head()
               ? p.statistics(place.batch, step.head, step.query + thread, queries)
               : Statistics{};
  };
  const auto keep = [&](int buffer, Statistics of_query) {
    if (thread < kOthers) tiles.other[buffer].of_query[thread] = of_query;
  };

  tiles.q_or_k.load_async(rows_of<__nv_bfloat16>(p.k, place.batch, place.head), shape.head_size, key, part);
  tiles.dy_or_v.load_async(rows_of<__nv_bfloat16>(p.v, place.batch, place.head), shape.head_size, key, part);
  cp_async_commit();
  tiles.ranges.set(mask_range, key);
  Fragment<kBlocks, kColumns> dk, dv;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    dk = dv = {};
    queries = of_warp.of_block;
    int buffer = 0;
    Step step = begin();
    if (step.head < end_head()) load(buffer, step);
    cp_async_commit();
    keep(buffer, statistics(step));
    for (; step.head < end_head(); buffer ^= 1) {
      cp_async_wait<0>();
      __syncthreads();  // this tile has arrived, all warps have read the previous one
      const Step now = step;
      step = after(step);
      if (step.head < end_head()) load(buffer ^ 1, step);
      cp_async_commit();
      const Statistics next_statistics = statistics(step);
      if (now.query + kOthers > of_warp.of_any.begin && now.query < of_warp.of_any.end) {
        const auto& other = tiles.other[buffer];
        unsigned kept[kBlocks] = {};
        if (shape.drops) {
          const KeptWeights words(shape, place.batch, now.head);
#pragma unroll
          for (int m = 0; m < kBlocks; ++m) kept[m] = kept_of_key_rows<kOthers>(words, first + 16 * m, now.query);
        }
        auto scores = products<kBlocks>(tiles.q_or_k, row, other.k_or_q);
        auto dscores = products<kBlocks>(tiles.dy_or_v, row, other.v_or_dy);
        const bool all = of_warp.of_all.contains({now.query, now.query + kOthers});
        const Alibi alibi(shape, now.head);
        if (alibi.is_on()) scale_and_add_bias<false>(scores, shape.scale_log2, alibi, first, now.query);
        weigh(shape, alibi.is_on() ? 1.0f : shape.scale_log2, scores, dscores, all,
              FragmentKeyRanges<kBlocks>(ranges, now.query), kept,
              [&](int, int j, int e) { return other.of_query[8 * j + pair() + e % 2]; });
        const bool exact = pass > 0 && !all;
        const PackedWeights weights(scores), dweights(dscores);  // packed before the sums: half the registers
        if (p.dv.data != nullptr) add_pairs(weights, other.v_or_dy, dv, exact, ranges, now.query);
        if (p.dk.data != nullptr) add_pairs(dweights, other.k_or_q, dk, exact, ranges, now.query);
      }
      keep(buffer ^ 1, next_statistics);
    }
    cp_async_wait<0>();
    if (!masks_partially(shape) || !__syncthreads_or(dk.holds_nan() || dv.holds_nan())) break;
  }
  dk.scale(shape.scale);
  dv.scale(shape.keep_scale);
  if (p.dk.data != nullptr) {
    store_rows(rows_of<__nv_bfloat16>(p.dk, place.batch, place.head), shape.head_size, first, shape.keys, part, dk,
               p.dk.add);
  }
  if (p.dv.data != nullptr) {
    store_rows(rows_of<__nv_bfloat16>(p.dv, place.batch, place.head), shape.head_size, first, shape.keys, part, dv,
               p.dv.add);
  }
}

template <int kColumns>
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
                            .delta = delta};
  const auto run_over = [&](auto kernel, int64_t rows, int64_t heads) {
    const int64_t blocks = ceil_divide(rows, Tiles::kRows) * heads * p.problem.batch;
    if (blocks > 0) launch(kernel, {blocks_for(blocks, 1), kMmaThreads, sizeof(Tiles)}, parameters);
  };
  if (p.dk || p.dv) run_over(key_gradient_mma_kernel<kColumns>, p.problem.keys, p.problem.kv_heads);
  if (p.dq) run_over(query_gradient_mma_kernel<kColumns>, p.problem.queries, p.problem.heads);
}

}  // namespace

void tensor_core_attention_backward(const AttentionBackward& p, const float* delta) {
  visit_columns(p.problem.head_size, [&](auto columns) {
    if constexpr (columns() <= kMostColumnsOnTensorCores) run<columns()>(p, delta);
  });
}

}  // namespace heed::cuda
