#include "autograd/ops/linear.hpp"

#include "autograd/core/dispatch.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require<DTypeError>(is_floating(x.dtype()), "linear: x is {}, it must be f32, bf16 or f64", x.dtype());
  require<ShapeError>(x.rank() >= 1, "linear: x is a scalar, it needs a last dimension");
  require<ShapeError>(weight.rank() == 2 && weight.shape()[1] == x.shape().columns(),
                      "linear: weight has shape {}, for x {} it must be (N, {})", weight.shape(), x.shape(),
                      x.shape().columns());
  require<DTypeError>(weight.dtype() == x.dtype(), "linear: weight is {} but x is {}", weight.dtype(), x.dtype());
  if (!bias) return;
  require<ShapeError>(bias.shape() == Shape{weight.shape()[0]},
                      "linear: bias has shape {}, for weight {} it must be ({})", bias.shape(), weight.shape(),
                      weight.shape()[0]);
  require<DTypeError>(bias.dtype() == compute_dtype(x.dtype()), "linear: bias is {}, for x of {} it must be {}",
                      bias.dtype(), x.dtype(), compute_dtype(x.dtype()));
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x, weight, bias);
  Output y(x.shape().with_last(weight.shape()[0]), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), linear_forward, {.y = y.ref(), .x = x, .weight = weight, .bias = bias});
  return record("linear", std::move(y), {x, weight, bias}, [x, weight](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), linear_backward,
                  {.dx = gradients.sink(0),
                   .dweight = gradients.parameter_sink(1),
                   .dbias = gradients.sink(2),
                   .dy = dy,
                   .x = x,
                   .weight = weight});
  });
}

}  // namespace heed
