// y = (x - mean) * rstd * weight + bias, statistics over the last dimension; rstd = 1 / sqrt(variance + eps).
//   x (..., C) f32|bf16|f64    weight, bias (C) as x (f32 for bf16), optional: 1 and 0    y (..., C) as x
// The variance is the mean of (x - mean)^2 in a second pass, so a large mean costs no digits. Sums, mean and rstd have
// the dtype of x, but f32 for bf16. Saves x, weight, mean, rstd for backward. Throws ShapeError, DTypeError,
// DeviceError, ValueError (eps). Ba, Kiros, Hinton 2016 (arXiv 1607.06450).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps = 1e-5);

struct LayerNormForward {
  TensorRef y = {}, mean = {}, rstd = {};  // mean, rstd (rows)
  ConstTensorRef x = {}, weight = {}, bias = {};
  double eps = 0;
};
struct LayerNormBackward {
  GradientSink dx = {}, dweight = {}, dbias = {};
  ConstTensorRef dy = {}, x = {}, weight = {}, mean = {}, rstd = {};
};

namespace cpu {
void layer_norm_forward(Context& context, const LayerNormForward& p);
void layer_norm_backward(Context& context, const LayerNormBackward& p);
}  // namespace cpu
namespace cuda {
void layer_norm_forward(Context& context, const LayerNormForward& p);
void layer_norm_backward(Context& context, const LayerNormBackward& p);
}  // namespace cuda

}  // namespace heed
