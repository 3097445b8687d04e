// y = gelu(u), u = x weight^T + bias, gelu in the tanh form (elementwise.hpp): the first half of a feed-forward.
//   x (..., K) f32|bf16|f64    weight (N, K) as x    bias (N) as x (f32 for bf16), optional    u, y (..., N) as x
// du = dy gelu'(u)    dx = du weight    dweight = du^T x    dbias = column sums of du, in a fixed order; dweight and
// dbias f32 for bf16. In bf16 u is rounded before gelu takes it, as where linear and gelu are two operations; only the
// fused product on CUDA (cuda/gemm.hpp) takes gelu of the u that it has in f32 still. Keeps x, weight and u or gelu'(u)
// for backward, which writes du over that. Throws ShapeError, DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias);

struct LinearGeluForward {
  TensorRef y = {};
  TensorRef kept = {};  // u, or gelu'(u), as linear_gelu_du() of the device wants it
  ConstTensorRef x = {}, weight = {}, bias = {};
};
// du over what forward has kept; what comes then is linear's backward.
struct LinearGeluDu {
  TensorRef kept = {};
  ConstTensorRef dy = {};
};

namespace cpu {
void linear_gelu_forward(Context& context, const LinearGeluForward& p);
void linear_gelu_du(Context& context, const LinearGeluDu& p);
}  // namespace cpu
namespace cuda {
void linear_gelu_forward(Context& context, const LinearGeluForward& p);
void linear_gelu_du(Context& context, const LinearGeluDu& p);
}  // namespace cuda

}  // namespace heed
