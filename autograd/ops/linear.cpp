#include "autograd/ops/linear.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {

void check_linear(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& bias_copy) {
  require<DTypeError>(is_floating(x.dtype()), "{}: x is {}, it must be f32, bf16 or f64", operation, x.dtype());
  require<ShapeError>(x.rank() >= 1, "{}: x is a scalar, it needs a last dimension", operation);
  require<ShapeError>(weight.rank() == 2 && weight.shape()[1] == x.shape().columns(),
                      "{}: weight has shape {}, for x {} it must be (N, {})", operation, weight.shape(), x.shape(),
                      x.shape().columns());
  require<DTypeError>(weight.dtype() == x.dtype(), "{}: weight is {} but x is {}", operation, weight.dtype(),
                      x.dtype());
  require_one_device(operation, {{"x", x}, {"weight", weight}, {"bias", bias}, {"bias_copy", bias_copy}});
  require<ValueError>(bias || !bias_copy, "{}: bias_copy is given without bias", operation);
  if (!bias) return;
  require<ShapeError>(bias.shape() == Shape{weight.shape()[0]}, "{}: bias has shape {}, for weight {} it must be ({})",
                      operation, bias.shape(), weight.shape(), weight.shape()[0]);
  require<DTypeError>(bias.dtype() == accumulation_dtype(x.dtype()), "{}: bias is {}, for x of {} it must be {}",
                      operation, bias.dtype(), x.dtype(), accumulation_dtype(x.dtype()));
  if (!bias_copy) return;
  require<ShapeError>(bias_copy.shape() == bias.shape(), "{}: bias_copy has shape {}, it must be {} as bias", operation,
                      bias_copy.shape(), bias.shape());
  require<DTypeError>(bias_copy.dtype() == DType::bf16 && x.dtype() == DType::bf16,
                      "{}: bias_copy is {} and x {}, both must be bf16", operation, bias_copy.dtype(), x.dtype());
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& bias_copy) {
  check_linear("linear", x, weight, bias, bias_copy);
  Output y(x.shape().with_last(weight.shape()[0]), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), linear_forward,
                {.y = y.ref(), .x = x, .weight = weight, .bias = bias, .bias_copy = bias_copy});
  return record("linear", std::move(y), {x, weight, bias}, [x, weight](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), linear_backward,
                  {.dx = gradients.sink(0),
                   .dweight = gradients.sink(1, {.accumulation_dtype = true}),
                   .dbias = gradients.sink(2),
                   .dy = dy,
                   .x = x,
                   .weight = weight});
  });
}

Tensor linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& bias_copy) {
  check_linear("linear_gelu", x, weight, bias, bias_copy);
  Output y(x.shape().with_last(weight.shape()[0]), x.dtype(), x.device());
  // Allocated even if no backward follows: another GEMM might round differently, and a recomputed Transformer block
  // would then not reproduce its first forward pass.
  const Tensor kept = empty(y.ref().shape, x.dtype(), x.device());
  HEED_DISPATCH(x.device(), linear_gelu_forward,
                {.y = y.ref(), .kept = kept.ref(), .x = x, .weight = weight, .bias = bias, .bias_copy = bias_copy});
  return record("linear_gelu", std::move(y), {x, weight, bias},
                [x, weight, kept](const Tensor& dy, Gradients& gradients) {
                  // Safe in place: `kept` never leaves this operation.
                  HEED_DISPATCH(x.device(), linear_gelu_du, {.kept = kept.ref(), .dy = dy});
                  HEED_DISPATCH(x.device(), linear_backward,
                                {.dx = gradients.sink(0),
                                 .dweight = gradients.sink(1, {.accumulation_dtype = true}),
                                 .dbias = gradients.sink(2),
                                 .dy = kept,
                                 .x = x,
                                 .weight = weight});
                });
}

}  // namespace heed
