// Shared by the CUDA attention kernels: the problem, the mask as key and query ranges, and the tile of each thread
// block.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "autograd/cuda/element.cuh"
#include "autograd/ops/attention/alibi.hpp"
#include "autograd/ops/attention/attention.hpp"
#include "autograd/ops/attention/mask.hpp"
#include "autograd/ops/dropout.hpp"

namespace heed::cuda {

// Kernel parameters of an AttentionProblem. Positions are 32-bit and so far below 2^31 that the sum of two does not
// overflow.
constexpr int kMostPositions = 1 << 29;

struct AttentionShape {
  int batch, queries, keys, heads, kv_heads, head_size;
  int window;  // 0: none
  bool causal, pads_left, alibi, drops, drops_all;
  const int32_t *lengths, *document_begin, *document_end;
  float scale, scale_log2;  // factor of the scores; scale_log2 = scale * log2(e), for the base-2 softmax
  RandomStream random;
  uint64_t first_row;
  uint32_t threshold;  // dropout: a 16-bit half below it drops its probability
  float keep_scale;    // factor of kept probabilities
};

inline AttentionShape attention_shape(const AttentionProblem& p) {
  const auto position = [](int64_t n) { return static_cast<int>(n); };
  require<ShapeError>(p.queries <= kMostPositions && p.keys <= kMostPositions && p.batch <= kMostPositions,
                      "attention: {} sequences of {} queries and {} keys, on cuda each may be at most {}", p.batch,
                      p.queries, p.keys, kMostPositions);
  return {.batch = position(p.batch),
          .queries = position(p.queries),
          .keys = position(p.keys),
          .heads = position(p.heads),
          .kv_heads = position(p.kv_heads),
          .head_size = position(p.head_size),
          .window = position(std::min<int64_t>(p.window, kMostPositions)),
          .causal = p.causal,
          .pads_left = p.side == PaddingSide::left,
          .alibi = p.alibi,
          .drops = dropout_threshold(p.dropout) > 0,
          .drops_all = dropout_rate(p.dropout) == 1,
          .lengths = elements<int32_t>(p.lengths),
          .document_begin = elements<int32_t>(p.document_begin),
          .document_end = elements<int32_t>(p.document_end),
          .scale = static_cast<float>(p.scale),
          .scale_log2 = static_cast<float>(p.scale * std::numbers::log2e),
          .random = p.random,
          .first_row = static_cast<uint64_t>(p.first_row),
          .threshold = dropout_threshold(p.dropout),
          .keep_scale = static_cast<float>(dropout_scale(p.dropout))};
}

using Span = PositionRange<int>;
using MaskRange = heed::MaskRange<int>;

// Whether a tile of scores can be masked in part, apart from padding.
__device__ inline bool masks_partially(const AttentionShape& s) { return s.causal || s.document_begin != nullptr; }

// The bias of ALiBi of one head, for scores in units of log 2.
struct Alibi {
  float slope;  // 0 without ALiBi
  int shift;    // position of query 0 among the keys

  __device__ Alibi(const AttentionShape& s, int head)
      : slope(s.alibi ? alibi_slope<float>(head, s.heads) * static_cast<float>(std::numbers::log2e) : 0.0f),
        shift(s.keys - s.queries) {}
  __device__ bool is_on() const { return slope != 0; }
  __device__ float bias(int query, int key) const { return slope * static_cast<float>(key - shift - query); }
};

__device__ inline AttentionMask<int> mask_of(const AttentionShape& s, int batch) {
  const int64_t first = static_cast<int64_t>(batch) * s.queries;
  return attention_mask<int>({.queries = s.queries,
                              .keys = s.keys,
                              .length = s.lengths != nullptr ? s.lengths[batch] : s.keys,
                              .window = s.window,
                              .causal = s.causal,
                              .pads_left = s.pads_left,
                              .drops_all = s.drops_all,
                              .row_begin = s.document_begin != nullptr ? s.document_begin + first : nullptr,
                              .row_end = s.document_end != nullptr ? s.document_end + first : nullptr});
}

// The tile of a thread block: a tile of rows of one head of one sequence.
struct Place {
  int batch, head, tile;
};

// Maps a thread block index to its tile. Thread blocks start in about the order of their indices. 16 heads are
// processed at a time, so that what their thread blocks read again is in L2, and within these the tiles with most work
// first: the last tiles of causal queries, the first tiles of causal keys.
__device__ inline Place place_of(unsigned block, int batch, int heads, int tiles, bool last_first) {
  constexpr unsigned kTogether = 16;
  const unsigned all = static_cast<unsigned>(batch) * static_cast<unsigned>(heads);
  const unsigned first = block / (kTogether * static_cast<unsigned>(tiles)) * kTogether;
  const unsigned together = min(kTogether, all - first), rest = block - first * static_cast<unsigned>(tiles);
  const int tile = static_cast<int>(rest / together), head = static_cast<int>(first + rest % together);
  return {.batch = head / heads, .head = head % heads, .tile = last_first ? tiles - 1 - tile : tile};
}

// The rows of one head of a sequence.
template <class T>
struct Rows {
  T* data;
  int64_t stride;

  __device__ T* at(int row) const { return data + row * stride; }
};
template <class T, class Data>
__device__ auto rows_of(const HeadsOf<Data>& heads, int batch, int head) {
  using Element = std::conditional_t<std::is_const_v<Data>, const T, T>;
  return Rows<Element>{static_cast<Element*>(heads.data) + batch * heads.batch_stride + head * heads.head_stride,
                       heads.row_stride};
}

// Whether each row of these heads can be read and written in vectors of N elements.
template <int N, class T, class... Heads>
bool can_move_heads(int64_t head_size, const Heads&... heads) {
  const auto movable = [&](const auto& h) {
    return !h || (can_move<N>(head_size, static_cast<const T*>(h.data)) && h.batch_stride % N == 0 &&
                  h.row_stride % N == 0 && h.head_stride % N == 0);
  };
  return (movable(heads) && ...);
}

}  // namespace heed::cuda
