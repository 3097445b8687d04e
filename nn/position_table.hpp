// A constant with one row for each position: the sinusoids, or the cosines and sines of RoPE.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "autograd/tensor.hpp"

namespace heed::nn {

// Holds a table of seq_len rows and, once a longer sequence needs it, a longer one. The first stays where it is: a
// captured CUDA graph of the training step reads it.
class PositionTable {
 public:
  // The first `rows` rows of the table.
  using Compute = std::function<Tensor(int64_t rows)>;

  // No table: rows() returns an empty handle.
  PositionTable() = default;
  PositionTable(int64_t seq_len, Compute compute) : compute_(std::move(compute)), table_(compute_(seq_len)) {}

  // A table of at least `count` rows.
  const Tensor& rows(int64_t count) const {
    if (!table_ || count <= table_.shape()[0]) return table_;
    // Twice as many rows, so that generation, one token after the other, seldom computes them again.
    if (!longer_ || longer_.shape()[0] < count) {
      longer_ = compute_(std::max(count, 2 * (longer_ ? longer_ : table_).shape()[0]));
    }
    return longer_;
  }

 private:
  Compute compute_;
  Tensor table_;
  mutable Tensor longer_;
};

}  // namespace heed::nn
