// y = x * rstd * weight, statistics over the last dimension; rstd = 1 / sqrt(mean of x^2 + eps).
//   x (..., C) f32|bf16|f64    weight (C) as x (f32 for bf16), optional: 1    y (..., C) as x
// The sum and rstd have the dtype of x, but f32 for bf16. With bf16, y is rounded once, after the multiplication by
// weight; Llama in transformers rounds x * rstd, too, before it. Saves x, weight, rstd for backward. Throws ShapeError,
// DTypeError, DeviceError, ValueError (eps). Zhang and Sennrich 2019 (arXiv 1910.07467).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5);

struct RmsNormForward {
  TensorRef y = {}, rstd = {};  // rstd (rows)
  ConstTensorRef x = {}, weight = {};
  double eps = 0;
};
struct RmsNormBackward {
  GradientSink dx = {}, dweight = {};
  ConstTensorRef dy = {}, x = {}, weight = {}, rstd = {};
};

namespace cpu {
void rms_norm_forward(Context& context, const RmsNormForward& p);
void rms_norm_backward(Context& context, const RmsNormBackward& p);
}  // namespace cpu
namespace cuda {
void rms_norm_forward(Context& context, const RmsNormForward& p);
void rms_norm_backward(Context& context, const RmsNormBackward& p);
}  // namespace cuda

}  // namespace heed
