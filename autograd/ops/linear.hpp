// linear: y = x weight^T + bias
//   x (..., K) f32|bf16|f64    weight (N, K) as x    bias (N) as x (f32 for bf16), optional    y (..., N) as x
//   dx = dy weight    dweight = dy^T x    dbias = column sums of dy, in a fixed order; dweight and dbias are f32 for
//   bf16. Saves x and weight for backward.
//   bias_copy (N): bias rounded to bf16, optional, for bf16 only. The CUDA GEMM adds the bias in bf16; without
//   bias_copy it takes one more launch to round it.
// linear_gelu: y = gelu(u), u = x weight^T + bias, gelu in the tanh form (elementwise.hpp): the first half of an MLP.
//   Inputs and dtypes as linear.    du = dy gelu'(u), then dx, dweight and dbias as linear, from du
//   In bf16, gelu is applied to u rounded to bf16, as if linear and gelu were separate operations; only the fused GEMM
//   on CUDA (cuda/gemm.hpp) applies gelu to the f32 accumulator. Saves x, weight and `kept`, which is u or gelu'(u);
//   backward overwrites `kept` with du.
// Throws ShapeError, DTypeError, DeviceError; ValueError for bias_copy without bias.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& bias_copy = {});
Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& bias_copy = {});

// Throws what linear() throws for these inputs; `operation` is the name in the messages.
void check_linear(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& bias_copy = {});

// On CUDA and without a bias, y and dy may have more than N columns. Those after the first N are padding, which is
// never read; what is in it afterwards is not specified.
struct LinearForward {
  TensorRef y = {};
  ConstTensorRef x = {}, weight = {}, bias = {}, bias_copy = {};
};
struct LinearBackward {
  GradientSink dx = {}, dweight = {}, dbias = {};
  ConstTensorRef dy = {}, x = {}, weight = {};
};
struct LinearGeluForward {
  TensorRef y = {};
  TensorRef kept = {};  // u, or gelu'(u), as linear_gelu_du() of the device expects it
  ConstTensorRef x = {}, weight = {}, bias = {}, bias_copy = {};
};
// Overwrites `kept` with du; the backward of linear follows.
struct LinearGeluDu {
  TensorRef kept = {};
  ConstTensorRef dy = {};
};

namespace cpu {
void linear_forward(Context& context, const LinearForward& p);
void linear_backward(Context& context, const LinearBackward& p);
void linear_gelu_forward(Context& context, const LinearGeluForward& p);
void linear_gelu_du(Context& context, const LinearGeluDu& p);
}  // namespace cpu
namespace cuda {
void linear_forward(Context& context, const LinearForward& p);
void linear_backward(Context& context, const LinearBackward& p);
void linear_gelu_forward(Context& context, const LinearGeluForward& p);
void linear_gelu_du(Context& context, const LinearGeluDu& p);
}  // namespace cuda

}  // namespace heed
