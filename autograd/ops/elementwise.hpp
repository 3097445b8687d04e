// Elementwise operations on tensors of any shape, f32|bf16|f64; the result has the shape and dtype of the inputs.
//   add    y = a + b
//   mul    y = a * b
//   scale  y = factor * x
//   gelu   y = x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3); equals the tanh form x/2 * (1 + tanh u), without its
//          cancellation for x < 0. dy/dx = s + x s (1 - s) 2u', s = sigmoid(2u), u' = sqrt(2/pi) (1 + 0.134145 x^2).
//   relu   y = x for x > 0, else 0; dy/dx at 0 is 0. A NaN in x propagates to y and dx.
// mul, gelu and relu save their inputs for backward, add and scale save nothing. Throws ShapeError and DTypeError (a
// and b differ), DTypeError (i32). Hendrycks and Gimpel 2016 (arXiv 1606.08415).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor add(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, double factor);
Tensor gelu(const Tensor& x);
Tensor relu(const Tensor& x);

// y = a * b; also its own backward: da = dy * b, db = dy * a.
struct Product {
  GradientSink y = {};
  ConstTensorRef a = {}, b = {};
};
// y = factor * x; also its own backward: dx = factor * dy.
struct Scaled {
  GradientSink y = {};
  ConstTensorRef x = {};
  double factor = 0;
};
struct ActivationForward {
  TensorRef y = {};
  ConstTensorRef x = {};
};
struct ActivationBackward {
  GradientSink dx = {};
  ConstTensorRef dy = {}, x = {};
};

namespace cpu {
void multiply(Context& context, const Product& p);
void multiply_by(Context& context, const Scaled& p);
void gelu_forward(Context& context, const ActivationForward& p);
void gelu_backward(Context& context, const ActivationBackward& p);
void relu_forward(Context& context, const ActivationForward& p);
void relu_backward(Context& context, const ActivationBackward& p);
}  // namespace cpu
namespace cuda {
void multiply(Context& context, const Product& p);
void multiply_by(Context& context, const Scaled& p);
void gelu_forward(Context& context, const ActivationForward& p);
void gelu_backward(Context& context, const ActivationBackward& p);
void relu_forward(Context& context, const ActivationForward& p);
void relu_backward(Context& context, const ActivationBackward& p);
}  // namespace cuda

}  // namespace heed
