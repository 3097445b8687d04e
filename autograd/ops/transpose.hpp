// y = x with two dimensions exchanged, in new memory: y[..., j, ..., i, ...] = x[..., i, ..., j, ...].
//   x any shape f32|bf16|f64    y as x, with the two dimensions exchanged
//   dim0, dim1: negative ones count from the end; they may be equal, which makes a copy
//   dx = dy with the same two dimensions exchanged
// Saves nothing for backward. Throws ShapeError (no such dimension), DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/device_scalar.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor transpose(const Tensor& x, int dim0, int dim1);

// x as (outer, rows, middle, columns, inner), of which rows and columns are exchanged.
struct TransposeSizes {
  int64_t outer = 1, rows = 1, middle = 1, columns = 1, inner = 1;

  TransposeSizes exchanged() const { return {outer, columns, middle, rows, inner}; }
  int64_t numel() const { return outer * rows * middle * columns * inner; }
  // Index in x of the first of `inner` adjacent elements; exchanged() has the index in y.
  HEED_HOST_DEVICE int64_t offset(int64_t outer_, int64_t row, int64_t middle_, int64_t column) const {
    return (((outer_ * rows + row) * middle + middle_) * columns + column) * inner;
  }
};

// Also its own backward, with exchanged sizes.
struct Transpose {
  GradientSink y = {};
  ConstTensorRef x = {};
  TransposeSizes sizes = {};  // of x
};

namespace cpu {
void transpose(Context& context, const Transpose& p);
}
namespace cuda {
void transpose(Context& context, const Transpose& p);
}

}  // namespace heed
