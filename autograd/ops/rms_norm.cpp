#include "autograd/ops/rms_norm.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const Tensor& x, const Tensor& weight, double eps) {
  require<DTypeError>(is_floating(x.dtype()), "rms_norm: x is {}, it must be f32, bf16 or f64", x.dtype());
  require<ShapeError>(x.rank() >= 1 && x.shape().columns() > 0,
                      "rms_norm: x has shape {}, it needs a last dimension of at least 1", x.shape());
  if (weight) {
    require<ShapeError>(weight.shape() == Shape{x.shape().columns()},
                        "rms_norm: weight has shape {}, for x {} it must be ({})", weight.shape(), x.shape(),
                        x.shape().columns());
    require<DTypeError>(weight.dtype() == accumulation_dtype(x.dtype()),
                        "rms_norm: weight is {}, for x of {} it must be {}", weight.dtype(), x.dtype(),
                        accumulation_dtype(x.dtype()));
  }
  require_one_device("rms_norm", {{"x", x}, {"weight", weight}});
  require<ValueError>(eps > 0, "rms_norm: eps is {}, it must be above 0", eps);
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps) {
  check(x, weight, eps);
  Output y(x.shape(), x.dtype(), x.device());
  const Tensor rstd = empty({x.shape().rows()}, accumulation_dtype(x.dtype()), x.device());
  HEED_DISPATCH(x.device(), rms_norm_forward, {.y = y.ref(), .rstd = rstd.ref(), .x = x, .weight = weight, .eps = eps});
  return record("rms_norm", std::move(y), {x, weight}, [x, weight, rstd](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), rms_norm_backward,
                  {.dx = gradients.sink(0, {.reuse = &x}),
                   .dweight = gradients.sink(1),
                   .dy = dy,
                   .x = x,
                   .weight = weight,
                   .rstd = rstd});
  });
}

}  // namespace heed
