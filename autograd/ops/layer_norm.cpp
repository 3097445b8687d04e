#include "autograd/ops/layer_norm.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  require<DTypeError>(is_floating(x.dtype()), "layer_norm: x is {}, it must be f32, bf16 or f64", x.dtype());
  require<ShapeError>(x.rank() >= 1 && x.shape().columns() > 0,
                      "layer_norm: x has shape {}, it needs a last dimension of at least 1", x.shape());
  for (const Tensor* parameter : {&weight, &bias}) {
    if (!*parameter) continue;
    require<ShapeError>(parameter->shape() == Shape{x.shape().columns()},
                        "layer_norm: {} has shape {}, for x {} it must be ({})", parameter == &bias ? "bias" : "weight",
                        parameter->shape(), x.shape(), x.shape().columns());
    require<DTypeError>(parameter->dtype() == accumulation_dtype(x.dtype()),
                        "layer_norm: {} is {}, for x of {} it must be {}", parameter == &bias ? "bias" : "weight",
                        parameter->dtype(), x.dtype(), accumulation_dtype(x.dtype()));
  }
  require_one_device("layer_norm", {{"x", x}, {"weight", weight}, {"bias", bias}});
  require<ValueError>(eps > 0, "layer_norm: eps is {}, it must be above 0", eps);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  check(x, weight, bias, eps);
  Output y(x.shape(), x.dtype(), x.device());
  const Tensor mean = empty({x.shape().rows()}, accumulation_dtype(x.dtype()), x.device());
  const Tensor rstd = empty({x.shape().rows()}, accumulation_dtype(x.dtype()), x.device());
  HEED_DISPATCH(
      x.device(), layer_norm_forward,
      {.y = y.ref(), .mean = mean.ref(), .rstd = rstd.ref(), .x = x, .weight = weight, .bias = bias, .eps = eps});
  return record("layer_norm", std::move(y), {x, weight, bias},
                [x, weight, mean, rstd](const Tensor& dy, Gradients& gradients) {
                  HEED_DISPATCH(x.device(), layer_norm_backward,
                                {.dx = gradients.sink(0, {.reuse = &x}),
                                 .dweight = gradients.sink(1),
                                 .dbias = gradients.sink(2),
                                 .dy = dy,
                                 .x = x,
                                 .weight = weight,
                                 .mean = mean,
                                 .rstd = rstd});
                });
}

}  // namespace heed
