#include "autograd/ops/reduce.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

Tensor reduce(const char* operation, const Tensor& x, double divisor) {
  require<DTypeError>(is_floating(x.dtype()), "{}: x is {}, it must be f32, bf16 or f64", operation, x.dtype());
  Output y({}, accumulation_dtype(x.dtype()), x.device());
  HEED_DISPATCH(x.device(), reduce_forward, {.y = y.ref(), .x = x, .divisor = divisor});
  return record(operation, std::move(y), {x}, [divisor](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), reduce_backward, {.dx = gradients.sink(0), .dy = dy, .divisor = divisor});
  });
}

}  // namespace

Tensor sum(const Tensor& x) { return reduce("sum", x, 1.0); }

Tensor mean(const Tensor& x) {
  require<ShapeError>(x.numel() > 0, "mean: x has shape {}, no elements have no mean", x.shape());
  return reduce("mean", x, static_cast<double>(x.numel()));
}

}  // namespace heed
