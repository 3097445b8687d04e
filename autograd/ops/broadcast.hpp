// Broadcasting as in NumPy and PyTorch: two shapes are aligned at their last dimensions, and a dimension that is 1 or
// missing in one of them is repeated to the size that it has in the other.
//   broadcast_shape  the common shape of a and b: (3, 1) and (2, 1, 4) make (2, 3, 4). `operation` begins the error
//                    text
//   expand           y = x, repeated to a shape to which x broadcasts. A copy, unlike expand() of PyTorch
//     x f32|bf16|f64    y has the dtype of x    dx = dy summed over the repeated dimensions
// Sums in the accumulation dtype (f32 for bf16), in blocks and sums of blocks, and in an order that depends on the
// shapes and the instruction set. Saves nothing for backward. Throws ShapeError, DTypeError (i32).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Shape broadcast_shape(const Shape& a, const Shape& b, const char* operation = "broadcast_shape");
Tensor expand(const Tensor& x, const Shape& shape);

// A tensor as (outer, n, inner): one dimension, or several adjacent ones, of size n between all dimensions before and
// all after it.
struct DimView {
  int64_t outer = 1, n = 1, inner = 1;
};
// y[o, j, i] = factor * x[o, i]
struct ExpandDim {
  GradientSink y = {};
  ConstTensorRef x = {};
  DimView view = {};
  double factor = 1;
};
// y[o, i] = (sum over j of x[o, j, i]) / divisor
struct SumDim {
  GradientSink y = {};
  ConstTensorRef x = {};
  DimView view = {};
  double divisor = 1;
};

// x and y have the same dtype, or one f32 and the other bf16.
namespace cpu {
void expand_dim(Context& context, const ExpandDim& p);
void sum_dim(Context& context, const SumDim& p);
}  // namespace cpu
namespace cuda {
void expand_dim(Context& context, const ExpandDim& p);
void sum_dim(Context& context, const SumDim& p);
}  // namespace cuda

}  // namespace heed
