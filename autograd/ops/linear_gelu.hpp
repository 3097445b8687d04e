// y = gelu(u), u = x weight^T + bias, gelu in the tanh form (elementwise.hpp): the first half of a feed-forward.
//   x (..., K) f32|bf16|f64    weight (N, K) as x    bias (N) as x (f32 for bf16), optional    u, y (..., N) as x
// du = dy gelu'(u)    dx = du weight    dweight = du^T x    dbias = column sums of du, in a fixed order; dweight and
// dbias f32 for bf16. In bf16 u is rounded before gelu takes it, as where linear and gelu are two operations; only the
// fused product on CUDA (cuda/gemm.hpp) takes gelu of the u that it has in f32 still. Keeps x, weight and u for
// backward, which writes du over u. Throws ShapeError, DTypeError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias);

// Its backward is that of gelu and then that of linear.
struct LinearGeluForward {
  TensorRef y = {}, u = {};
  ConstTensorRef x = {}, weight = {}, bias = {};
};

namespace cpu {
void linear_gelu_forward(Context& context, const LinearGeluForward& p);
}  // namespace cpu
namespace cuda {
void linear_gelu_forward(Context& context, const LinearGeluForward& p);
}  // namespace cuda

}  // namespace heed
