// The mask of attention as ranges, the one rule of all kernels on CPU and CUDA: which keys a query attends to, and
// which queries attend to a key. attention.hpp says what the options mean.
#pragma once

#include "autograd/core/philox.hpp"

namespace heed {

// Positions [begin, end); empty if begin >= end.
template <class Int>
struct PositionRange {
  Int begin, end;

  HEED_HOST_DEVICE bool contains(PositionRange other) const { return other.begin >= begin && other.end <= end; }
};

// The mask of one side of a sequence: for queries as rows, the key range of each query; for keys as rows, the range of
// queries that attend to each key. Rows outside [first_row, end_row), such as padding, are masked completely: their
// outputs and gradients are 0. The range of any other row is of(row), which is not empty, and whose begin and end never
// decrease with the row.
template <class Int>
struct MaskRange {
  Int first_row, end_row;
  Int begin, end;                      // bounds of the ranges of all rows
  Int begin_shift, end_shift;          // causal, window: of(row) is within [row + begin_shift, row + end_shift)
  const int32_t *row_begin, *row_end;  // documents: of(row) is within [row_begin[row], row_end[row]); or nullptr

  // A row outside [first_row, end_row) must not be looked up in row_begin and row_end: it gets an unspecified range.
  HEED_HOST_DEVICE PositionRange<Int> of(Int row) const {
    PositionRange<Int> range{larger(begin, row + begin_shift), smaller(end, row + end_shift)};
    if (row_begin != nullptr && row >= first_row && row < end_row) {
      range = {larger(range.begin, row_begin[row]), smaller(range.end, row_end[row])};
    }
    return range;
  }
  // The union of the ranges of these rows.
  HEED_HOST_DEVICE PositionRange<Int> of_any(PositionRange<Int> rows) const {
    rows = {larger(rows.begin, first_row), smaller(rows.end, end_row)};
    return rows.begin < rows.end ? PositionRange<Int>{of(rows.begin).begin, of(rows.end - 1).end}
                                 : PositionRange<Int>{0, 0};
  }
  // The intersection of the ranges of these rows (except masked rows); larger than any range if all are masked.
  HEED_HOST_DEVICE PositionRange<Int> of_all(PositionRange<Int> rows) const {
    constexpr Int kEnd = Int{1} << (sizeof(Int) == 4 ? 30 : 61);
    rows = {larger(rows.begin, first_row), smaller(rows.end, end_row)};
    return rows.begin < rows.end ? PositionRange<Int>{of(rows.end - 1).begin, of(rows.begin).end}
                                 : PositionRange<Int>{0, kEnd};
  }
  // Whether the range of each of these rows (except masked rows) contains all of `columns`: no mask is needed.
  HEED_HOST_DEVICE bool all(PositionRange<Int> rows, PositionRange<Int> columns) const {
    return of_all(rows).contains(columns);
  }

  HEED_HOST_DEVICE static constexpr Int larger(Int a, Int b) { return a > b ? a : b; }
  HEED_HOST_DEVICE static constexpr Int smaller(Int a, Int b) { return a < b ? a : b; }
};

template <class Int>
struct AttentionMask {
  MaskRange<Int> of_queries, of_keys;
};

// What the mask of one sequence depends on.
template <class Int>
struct MaskOptions {
  Int queries, keys;  // of the tensors
  Int length;         // valid keys: the first ones, or with pads_left the last ones
  Int window = 0;     // 0: none; else a query attends to the last `window` keys up to its own position
  bool causal = true, pads_left = false;
  bool drops_all = false;  // dropout with probability 1: every row is masked
  // The document of each position of this sequence, [row_begin[i], row_end[i]); only if queries == keys. Or nullptr.
  const int32_t *row_begin = nullptr, *row_end = nullptr;
};

template <class Int>
HEED_HOST_DEVICE AttentionMask<Int> attention_mask(const MaskOptions<Int>& o) {
  using Range = MaskRange<Int>;
  // Farther than any position, and small enough that a position can be added.
  constexpr Int kFar = Int{1} << (sizeof(Int) == 4 ? 29 : 60);
  const PositionRange<Int> keys =
      o.pads_left ? PositionRange<Int>{o.keys - o.length, o.keys} : PositionRange<Int>{0, o.length};
  PositionRange<Int> queries = o.queries == o.keys ? keys : PositionRange<Int>{0, o.queries};
  const Int shift = o.keys - o.queries;  // query i has the position of key i + shift
  const Int window = Range::smaller(o.window, kFar);
  Int first_key = keys.begin;
  if (o.causal) queries.begin = Range::larger(queries.begin, keys.begin - shift);
  if (o.window > 0) {
    queries.end = Range::smaller(queries.end, keys.end - shift - 1 + window);
    first_key = Range::larger(first_key, queries.begin + shift + 1 - window);
  }
  if (o.length == 0 || o.drops_all) queries.end = queries.begin;
  const bool none = queries.begin >= queries.end;
  return {.of_queries = {queries.begin, queries.end, keys.begin, keys.end, o.window > 0 ? shift + 1 - window : -kFar,
                         o.causal ? shift + 1 : kFar, o.row_begin, o.row_end},
          .of_keys = {first_key, none ? first_key : keys.end, queries.begin, queries.end, o.causal ? -shift : -kFar,
                      o.window > 0 ? window - shift : kFar, o.row_begin, o.row_end}};
}

}  // namespace heed
