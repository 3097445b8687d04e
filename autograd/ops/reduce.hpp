// Sums and means.
//   x any shape f32|bf16|f64
//   sum(x), mean(x)            of all elements: a scalar, shape (), dtype of x (f32 for bf16)
//   sum(x, dim), mean(x, dim)  over one dimension (negative: counted from the end): the shape of x without it, or with
//                              1 in its place if keepdim; dtype of x
// All elements are summed in f64: chunks of elements, whose number depends on the shape only, then the sums of the
// chunks in a fixed order. Sums over a dimension are in the accumulation dtype (f32 for bf16), in blocks and sums of
// blocks, and in a fixed order (broadcast.hpp). The bits do not depend on the threads. The sum of no elements is 0,
// their mean a ShapeError. Saves nothing for backward. Throws ShapeError, DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor sum(const Tensor& x);
Tensor sum(const Tensor& x, int dim, bool keepdim = false);
Tensor mean(const Tensor& x);
Tensor mean(const Tensor& x, int dim, bool keepdim = false);

// y = (sum of x) / divisor; its backward is expand_dim() of broadcast.hpp.
struct ReduceForward {
  TensorRef y = {};
  ConstTensorRef x = {};
  double divisor = 1;
};

namespace cpu {
void reduce_forward(Context& context, const ReduceForward& p);
}  // namespace cpu
namespace cuda {
void reduce_forward(Context& context, const ReduceForward& p);
}  // namespace cuda

}  // namespace heed
