// softmax      y = e^(x - max) / sum of e^(x - max), over the last dimension    dx = y (dy - sum of dy y)
// log_softmax  y = (x - max) - log(sum of e^(x - max))                          dx = dy - e^y (sum of dy)
//   x (..., C) f32|bf16|f64    y as x
// The maximum of the row is subtracted first, so that x of any size is safe. Sums are in f32 for bf16, in a fixed
// order. x = -Inf has probability 0. A row that holds a NaN or +Inf, or nothing but -Inf, becomes NaN. Saves y for
// backward, in its dtype. Throws ShapeError (a scalar), DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor softmax(const Tensor& x);
Tensor log_softmax(const Tensor& x);

struct SoftmaxForward {
  TensorRef y = {};
  ConstTensorRef x = {};
  bool log = false;  // log_softmax
};
struct SoftmaxBackward {
  GradientSink dx = {};
  ConstTensorRef dy = {}, y = {};
  bool log = false;
};

namespace cpu {
void softmax_forward(Context& context, const SoftmaxForward& p);
void softmax_backward(Context& context, const SoftmaxBackward& p);
}  // namespace cpu
namespace cuda {
void softmax_forward(Context& context, const SoftmaxForward& p);
void softmax_backward(Context& context, const SoftmaxBackward& p);
}  // namespace cuda

}  // namespace heed
