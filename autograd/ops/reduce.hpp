// sum and mean of all elements.
//   x any shape f32|bf16|f64    result: a scalar, shape (), dtype of x (f32 for bf16)
// Summed in f64: chunks of elements, whose number depends on the shape only, then the sums of the chunks in a fixed
// order, so the bits do not depend on the threads. The sum of no elements is 0, their mean a ShapeError.
// Saves nothing for backward. Throws ShapeError, DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor sum(const Tensor& x);
Tensor mean(const Tensor& x);

// y = (sum of x) / divisor
struct ReduceForward {
  TensorRef y = {};
  ConstTensorRef x = {};
  double divisor = 1;
};
// dx = dy / divisor for every element
struct ReduceBackward {
  GradientSink dx = {};
  ConstTensorRef dy = {};
  double divisor = 1;
};

namespace cpu {
void reduce_forward(Context& context, const ReduceForward& p);
void reduce_backward(Context& context, const ReduceBackward& p);
}  // namespace cpu
namespace cuda {
void reduce_forward(Context& context, const ReduceForward& p);
void reduce_backward(Context& context, const ReduceBackward& p);
}  // namespace cuda

}  // namespace heed
