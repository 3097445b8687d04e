// y = x weight^T + bias.
//   x (..., K) f32|bf16|f64    weight (N, K) as x    bias (N) as x (f32 for bf16), optional    y (..., N) as x
// dx = dy weight    dweight = dy^T x    dbias = column sums of dy, in a fixed order; dweight and dbias are f32 for
// bf16. Saves x and weight for backward. Throws ShapeError, DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);
// Checks the inputs of linear(), for `operation` in error messages. Throws ShapeError, DTypeError.
void check_linear(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias);

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
namespace cuda {
void linear_forward(Context& context, const LinearForward& p);
void linear_backward(Context& context, const LinearBackward& p);
}  // namespace cuda

}  // namespace heed
