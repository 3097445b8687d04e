// y = x weight^T + bias.
//   x (..., K) f32|f64    weight (N, K), bias (N) as x, bias optional    y (..., N)
// dx = dy weight    dweight = dy^T x    dbias = column sums of dy, in a fixed order.
// Keeps x and weight for backward. Throws ShapeError, DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

struct LinearForward {
  TensorRef y = {};
  ConstTensorRef x = {}, weight = {}, bias = {};
};
struct LinearBackward {
  GradientSink dx = {}, dweight = {}, dbias = {};
  ConstTensorRef dy = {}, x = {}, weight = {};
};

namespace cpu {
void linear_forward(Context& context, const LinearForward& p);
void linear_backward(Context& context, const LinearBackward& p);
}  // namespace cpu

}  // namespace heed
