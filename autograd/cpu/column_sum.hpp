// Deterministic column sums: sum[j] = sum over rows i of x[i, j]. The rows are split into chunks whose number depends
// only on the shape. One thread sums each chunk into its own partial row, and the partial rows are added in a
// fixed order.
#pragma once

#include <algorithm>

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::cpu {

template <class T>
class ColumnSums {
 public:
  // `sums`: number of different sums over the same rows, each of `columns` elements. The partial rows are initialised
  // to 0.
  ColumnSums(const Context& context, int64_t rows, int64_t columns, int64_t sums)
      : rows_(rows),
        columns_(columns),
        sums_(sums),
        chunks_(std::clamp<int64_t>(rows / kRowsPerChunk, 1, kMaxChunks)),
        partial_(context, chunks_ * sums * columns) {
    std::fill_n(partial_.data(), chunks_ * sums * columns, T(0));
  }

  int64_t chunks() const { return chunks_; }
  int64_t first_row(int64_t chunk) const { return rows_ * chunk / chunks_; }
  T* partial(int64_t chunk, int64_t sum) const { return partial_.data() + (chunk * sums_ + sum) * columns_; }

  // Adds up the partial rows of one sum and writes the result to `total`, or accumulates it there (total.add).
  void finish(int64_t sum, const GradientSink& total) const {
    T* out = total.ref.as<T>();
    for (int64_t j = 0; j < columns_; ++j) {
      T value = 0;
      for (int64_t chunk = 0; chunk < chunks_; ++chunk) value += partial(chunk, sum)[j];
      out[j] = total.add ? out[j] + value : value;
    }
  }

 private:
  static constexpr int64_t kRowsPerChunk = 16, kMaxChunks = 32;

  int64_t rows_, columns_, sums_, chunks_;
  Scratch<T> partial_;
};

}  // namespace heed::cpu
