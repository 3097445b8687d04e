#include "autograd/ops/linear_gelu.hpp"

#include "autograd/core/dispatch.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/tape.hpp"

namespace heed {

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_linear("linear_gelu", x, weight, bias);
  Output y(x.shape().with_last(weight.shape()[0]), x.dtype(), x.device());
  // Allocated even if no backward follows: another GEMM might round differently, and a recomputed Transformer block
  // would then not reproduce its first forward pass.
  const Tensor kept = empty(y.ref().shape, x.dtype(), x.device());
  HEED_DISPATCH(x.device(), linear_gelu_forward,
                {.y = y.ref(), .kept = kept.ref(), .x = x, .weight = weight, .bias = bias});
  return record("linear_gelu", std::move(y), {x, weight, bias},
                [x, weight, kept](const Tensor& dy, Gradients& gradients) {
                  // Safe in place: `kept` never leaves this operation.
                  HEED_DISPATCH(x.device(), linear_gelu_du, {.kept = kept.ref(), .dy = dy});
                  HEED_DISPATCH(x.device(), linear_backward,
                                {.dx = gradients.sink(0),
                                 .dweight = gradients.parameter_sink(1),
                                 .dbias = gradients.sink(2),
                                 .dy = kept,
                                 .x = x,
                                 .weight = weight});
                });
}

}  // namespace heed
