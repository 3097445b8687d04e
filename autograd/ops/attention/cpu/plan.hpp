// Plan shared by the CPU forward and backward kernels: key ranges of the mask, tile sizes, scratch layouts, and tasks
// of the threads.
#pragma once

#include <algorithm>
#include <numbers>
#include <utility>
#include <vector>

#include "autograd/core/shape.hpp"
#include "autograd/cpu/line.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/attention/alibi.hpp"
#include "autograd/ops/attention/attention.hpp"
#include "autograd/ops/attention/mask.hpp"
#include "autograd/ops/dropout.hpp"

namespace heed::cpu {

// Tile sizes: queries per tile, and keys per tile in forward and in backward. A tile of P has to fit into the caches;
// forward stores only kMR rows of it at a time. Measured as the best among 64 to 128, 128 to 512 and 64 to 256.
inline constexpr int64_t kTileQueries = 128, kForwardKeys = 512, kBackwardKeys = 64;
// The largest kMR (rows of a register tile): tiles are padded to a multiple of it.
inline constexpr int64_t kMaxMR = 8;

// Query heads that share a kv head.
inline int64_t group_size(const AttentionProblem& p) { return p.heads / p.kv_heads; }

// The factor of probabilities that dropout keeps.
inline double keep_scale(const AttentionProblem& p) { return dropout_scale(p.dropout); }
// Index of the 16-bit half of a random word of P(batch, head, query, key 0), a multiple of 8.
inline uint64_t first_half(const AttentionProblem& p, int64_t batch, int64_t head, int64_t query) {
  const int64_t row = p.first_row + batch;
  return static_cast<uint64_t>(((row * p.heads + head) * p.queries + query) * round_up(p.keys, 8));
}
// The slope of ALiBi for scores in units of log 2; 0 without ALiBi.
template <class T>
T slope_log2(const AttentionProblem& p, int64_t head) {
  return p.alibi ? static_cast<T>(alibi_slope<double>(head, p.heads) * std::numbers::log2e) : T(0);
}
inline bool drops_all(const AttentionProblem& p) { return dropout_rate(p.dropout) == 1; }

// The mask of one sequence with its keys counted from first_key, the first one that any query attends to: a query in
// [first_query, end_query) attends to at least one of `keys` keys; all other queries and keys are masked completely.
struct KeyRange {
  AttentionMask<int64_t> mask;
  int64_t first_key, keys;
  int64_t first_query, end_query;

  // The key range of a query; begin and end never decrease with the query.
  PositionRange<int64_t> keys_of(int64_t query) const {
    const PositionRange<int64_t> range = mask.of_queries.of(query);
    return {range.begin - first_key, range.end - first_key};
  }
  // The queries that attend to key first_key + key.
  PositionRange<int64_t> queries_of(int64_t key) const { return mask.of_keys.of(first_key + key); }
};

inline KeyRange visibility(const AttentionProblem& p, int64_t batch) {
  const auto document = [&](const ConstTensorRef& positions) {
    return positions ? positions.as<int32_t>() + batch * p.queries : nullptr;
  };
  const AttentionMask<int64_t> mask =
      attention_mask<int64_t>({.queries = p.queries,
                               .keys = p.keys,
                               .length = p.lengths ? p.lengths.as<int32_t>()[batch] : p.keys,
                               .window = p.window,
                               .causal = p.causal,
                               .pads_left = p.side == PaddingSide::left,
                               .drops_all = drops_all(p),
                               .row_begin = document(p.document_begin),
                               .row_end = document(p.document_end)});
  const MaskRange<int64_t>& rows = mask.of_queries;
  const PositionRange<int64_t> keys = rows.of_any({rows.first_row, rows.end_row});
  return {.mask = mask,
          .first_key = keys.begin,
          .keys = keys.end - keys.begin,
          .first_query = rows.first_row,
          .end_query = std::max(rows.first_row, rows.end_row)};
}

inline int64_t query_tiles(const KeyRange& v) { return ceil_divide(v.end_query - v.first_query, kTileQueries); }

// Tiles first, first + step, first + 2 step …: interleaved, so that the tasks of a causal triangle are about equally
// long.
struct TileShare {
  int64_t first = 0, step = 1;
};

// Unit of work of a thread: one kv head of one sequence with the query heads of its group, or a subset of its tiles.
struct AttentionTask {
  int64_t batch = 0, kv_head = 0;
  TileShare query_tiles = {}, key_tiles = {};
  bool dq = true, dkv = true;  // backward: the gradients to compute, if the caller needs them
};

// Offsets of the arrays within the scratch memory of one thread, in elements.
template <class T>
class ScratchLayout {
 public:
  int64_t elements() const { return elements_; }

 protected:
  int64_t take(int64_t count) { return std::exchange(elements_, elements_ + padded<T>(count)); }

 private:
  int64_t elements_ = 0;
};

template <class T>
struct ForwardLayout : ScratchLayout<T> {
  int64_t key_panels, values;        // all keys of a sequence
  int64_t queries, y, maxima, sums;  // a tile of queries; sums: a cache line for each row
  int64_t scores;                    // up to kMaxMR queries, a tile of keys

  explicit ForwardLayout(const AttentionProblem& p) {
    const int64_t keys = round_up(p.keys, 2 * kLine<T>), columns = padded<T>(p.head_size);
    key_panels = this->take(keys * p.head_size);
    values = this->take(keys * columns);
    queries = this->take(kTileQueries * columns);
    y = this->take(kTileQueries * columns);
    maxima = this->take(kTileQueries);
    sums = this->take(kTileQueries * kLine<T>);
    scores = this->take(kMaxMR * kForwardKeys);
  }
};

template <class T>
struct BackwardLayout : ScratchLayout<T> {
  int64_t key_panels, value_panels, keys, dk, dv;  // all keys of a sequence
  int64_t queries, dy, dq, lse, deltas;            // a tile of queries
  int64_t query_pairs, dy_pairs;                   // the same as pairs of queries in bf16; empty for other dtypes
  int64_t weights, dscores;                        // a tile of queries, a tile of keys

  explicit BackwardLayout(const AttentionProblem& p) {
    const int64_t pair_rows = p.dtype == DType::bf16 ? kTileQueries / 2 : 0;
    const int64_t columns = padded<T>(p.head_size), all_keys = round_up(p.keys, kBackwardKeys);
    for (int64_t* part : {&key_panels, &value_panels, &keys, &dk, &dv}) *part = this->take(all_keys * columns);
    for (int64_t* part : {&queries, &dy, &dq}) *part = this->take(kTileQueries * columns);
    for (int64_t* part : {&query_pairs, &dy_pairs}) *part = this->take(pair_rows * columns);
    for (int64_t* part : {&lse, &deltas}) *part = this->take(kTileQueries);
    for (int64_t* part : {&weights, &dscores}) *part = this->take(kTileQueries * kBackwardKeys);
  }
};

// Number of threads for a problem: one per kGrain of work, as less does not pay for waking one, up to max_threads().
inline int64_t threads_for(const AttentionProblem& p) {
  constexpr double kGrain = 1 << 18;  // multiplications and additions
  const double work = 2.0 * static_cast<double>(p.batch * p.heads * p.head_size) * static_cast<double>(p.queries) *
                      static_cast<double>(p.keys);
  return static_cast<int64_t>(std::clamp(work / kGrain, 1.0, static_cast<double>(max_threads())));
}

// Tasks of backward: whole kv heads, or subsets of their tiles if there are too few heads for the threads.
inline std::vector<AttentionTask> backward_tasks(const AttentionProblem& p, int64_t threads) {
  const int64_t kv_heads = p.batch * p.kv_heads;
  // Splitting costs 7 GEMMs instead of 5; whole heads may leave threads idle in the last round.
  const bool split = 5 * ceil_divide(kv_heads, threads) * threads > 7 * kv_heads;
  constexpr int64_t kTasksPerThread = 4;
  const int64_t wanted = split ? ceil_divide(kTasksPerThread * threads, 2 * kv_heads) : 1;
  const auto shares = [&](int64_t size, int64_t tile) {
    return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, ceil_divide(size, tile)));
  };
  const int64_t key_shares = shares(p.keys, kBackwardKeys), query_shares = shares(p.queries, kTileQueries);
  std::vector<AttentionTask> tasks;
  for (int64_t i = 0; i < kv_heads; ++i) {
    AttentionTask task{.batch = i / p.kv_heads, .kv_head = i % p.kv_heads};
    if (!split) {
      tasks.push_back(task);
      continue;
    }
    task.dq = false;
    for (int64_t s = 0; s < key_shares; ++s) {
      task.key_tiles = {s, key_shares};
      tasks.push_back(task);
    }
    task.dq = true;
    task.dkv = false;
    task.key_tiles = {};
    for (int64_t s = 0; s < query_shares; ++s) {
      task.query_tiles = {s, query_shares};
      tasks.push_back(task);
    }
  }
  return tasks;
}

// Calls body(task, scratch) for tasks 0 … count - 1 on up to `threads` threads; scratch is private to the thread.
template <class T, class Body>
void for_each_task(const Context& context, int64_t count, int64_t threads, const ScratchLayout<T>& layout,
                   const Body& body) {
  threads = std::min(threads, count);
  const Scratch<T> scratch(context, threads * layout.elements());
  parallel_tasks(count, threads,
                 [&](int64_t task, int64_t thread) { body(task, scratch.data() + thread * layout.elements()); });
}

}  // namespace heed::cpu
