// Elementwise operations on tensors f32|bf16|f64. Operations of two tensors broadcast (broadcast.hpp): the result has
// the common shape and the dtype of both; an input of another shape is expanded, which costs a copy of that shape.
//   add         y = a + b
//   sub         y = a - b
//   mul         y = a * b
//   div         y = a / b; db = -dy * (a / b) / b
//   scale       y = factor * x
//   add_scalar  y = x + value; the factor and the value are rounded to the accumulation dtype (f32 for bf16)
//   gelu        y = x * sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3); equals the tanh form x/2 * (1 + tanh u), but
//               without its cancellation for x < 0. dy/dx = s + x s (1 - s) 2u', s = sigmoid(2u),
//               u' = sqrt(2/pi) (1 + 0.134145 x^2)
//   gelu_erf    y = x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2; dy/dx = Phi(x) + x e^(-x^2/2) / sqrt(2 pi)
//   silu        y = x s, s = sigmoid(x); dy/dx = s + x s (1 - s)
//   relu        y = x for x > 0, else 0; dy/dx at 0 is 0
//   relu2       y = x^2 for x > 0, else 0; dy/dx = 2x for x > 0, else 0
//   tanh        y = tanh(x); dx = dy (1 - y^2)
//   softcap     y = cap tanh(x / cap), between -cap and cap; dx = dy (1 - (y / cap)^2)
//   sigmoid     y = 1 / (1 + e^-x); dx = dy y (1 - y)
//   exp         y = e^x; dx = dy y
//   log         y = ln(x): -Inf at 0, NaN below; dx = dy / x
// A NaN in an input propagates to the result and the gradients that depend on it. mul and div save both inputs for
// backward, expanded; the activations gelu, gelu_erf, silu, relu and relu2, and log, save x; tanh, softcap, sigmoid and
// exp save y; the others save nothing. Throws ShapeError (a and b do not broadcast), DTypeError (a and b differ, or
// i32), DeviceError (a and b differ), ValueError (a cap that is not above 0). gelu, gelu_erf: Hendrycks and Gimpel 2016
// (arXiv 1606.08415). silu: Elfwing, Uchibe and Doya 2017 (arXiv 1702.03118). relu2: So et al. 2021 (arXiv 2109.08668).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor scale(const Tensor& x, double factor);
Tensor add_scalar(const Tensor& x, double value);
Tensor gelu(const Tensor& x);
Tensor gelu_erf(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor relu2(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor softcap(const Tensor& x, double cap);
Tensor sigmoid(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);

// y from a and b of its shape.
struct Binary {
  GradientSink y = {};
  ConstTensorRef a = {}, b = {};
};
struct DivBackward {
  GradientSink db = {};
  ConstTensorRef dy = {}, a = {}, b = {};
};
// y from x and a number.
struct WithScalar {
  GradientSink y = {};
  ConstTensorRef x = {};
  double scalar = 0;
};
struct ActivationForward {
  TensorRef y = {};
  ConstTensorRef x = {};
};
struct ActivationBackward {
  GradientSink dx = {};
  ConstTensorRef dy = {}, x = {};
};
// The backward of an activation that saves its result.
struct BackwardFromResult {
  GradientSink dx = {};
  ConstTensorRef dy = {}, y = {};
};
struct SoftcapBackward {
  GradientSink dx = {};
  ConstTensorRef dy = {}, y = {};
  double cap = 1;
};

namespace cpu {
void subtract(Context& context, const Binary& p);
void multiply(Context& context, const Binary& p);
void divide(Context& context, const Binary& p);
void div_backward(Context& context, const DivBackward& p);
void multiply_by(Context& context, const WithScalar& p);
void add_scalar(Context& context, const WithScalar& p);
void gelu_forward(Context& context, const ActivationForward& p);
void gelu_backward(Context& context, const ActivationBackward& p);
void gelu_erf_forward(Context& context, const ActivationForward& p);
void gelu_erf_backward(Context& context, const ActivationBackward& p);
void silu_forward(Context& context, const ActivationForward& p);
void silu_backward(Context& context, const ActivationBackward& p);
void relu_forward(Context& context, const ActivationForward& p);
void relu_backward(Context& context, const ActivationBackward& p);
void relu2_forward(Context& context, const ActivationForward& p);
void relu2_backward(Context& context, const ActivationBackward& p);
void tanh_forward(Context& context, const ActivationForward& p);
void tanh_backward(Context& context, const BackwardFromResult& p);
void softcap_forward(Context& context, const WithScalar& p);
void softcap_backward(Context& context, const SoftcapBackward& p);
void sigmoid_forward(Context& context, const ActivationForward& p);
void sigmoid_backward(Context& context, const BackwardFromResult& p);
void exp_forward(Context& context, const ActivationForward& p);
void log_forward(Context& context, const ActivationForward& p);
}  // namespace cpu
namespace cuda {
void subtract(Context& context, const Binary& p);
void multiply(Context& context, const Binary& p);
void divide(Context& context, const Binary& p);
void div_backward(Context& context, const DivBackward& p);
void multiply_by(Context& context, const WithScalar& p);
void add_scalar(Context& context, const WithScalar& p);
void gelu_forward(Context& context, const ActivationForward& p);
void gelu_backward(Context& context, const ActivationBackward& p);
void gelu_erf_forward(Context& context, const ActivationForward& p);
void gelu_erf_backward(Context& context, const ActivationBackward& p);
void silu_forward(Context& context, const ActivationForward& p);
void silu_backward(Context& context, const ActivationBackward& p);
void relu_forward(Context& context, const ActivationForward& p);
void relu_backward(Context& context, const ActivationBackward& p);
void relu2_forward(Context& context, const ActivationForward& p);
void relu2_backward(Context& context, const ActivationBackward& p);
void tanh_forward(Context& context, const ActivationForward& p);
void tanh_backward(Context& context, const BackwardFromResult& p);
void softcap_forward(Context& context, const WithScalar& p);
void softcap_backward(Context& context, const SoftcapBackward& p);
void sigmoid_forward(Context& context, const ActivationForward& p);
void sigmoid_backward(Context& context, const BackwardFromResult& p);
void exp_forward(Context& context, const ActivationForward& p);
void log_forward(Context& context, const ActivationForward& p);
}  // namespace cuda

}  // namespace heed
