#include "autograd/ops/reduce.hpp"

#include "autograd/core/device.hpp"
#include "autograd/ops/broadcast.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const char* operation, const Tensor& x) {
  require<DTypeError>(is_floating(x.dtype()), "{}: x is {}, it must be f32, bf16 or f64", operation, x.dtype());
}

// dx = dy / divisor, for every element that was summed.
Backward backward_of_sum(const DimView& view, double divisor) {
  return [view, divisor](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), expand_dim, {.y = gradients.sink(0), .x = dy, .view = view, .factor = 1 / divisor});
  };
}

Tensor reduce(const char* operation, const Tensor& x, double divisor) {
  check(operation, x);
  Output y({}, accumulation_dtype(x.dtype()), x.device());
  HEED_DISPATCH(x.device(), reduce_forward, {.y = y.ref(), .x = x, .divisor = divisor});
  return record(operation, std::move(y), {x}, backward_of_sum({.n = x.numel()}, divisor));
}

// dim >= 0
Tensor reduce(const char* operation, const Tensor& x, int dim, bool keepdim, double divisor) {
  check(operation, x);
  DimView view;
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    const int64_t size = x.shape()[d];
    (d < dim ? view.outer : d == dim ? view.n : view.inner) *= size;
    if (d != dim || keepdim) shape = shape.with_appended(d == dim ? 1 : size);
  }
  Output y(shape, x.dtype(), x.device());
  HEED_DISPATCH(x.device(), sum_dim, {.y = {y.ref()}, .x = x, .view = view, .divisor = divisor});
  return record(operation, std::move(y), {x}, backward_of_sum(view, divisor));
}

}  // namespace

Tensor sum(const Tensor& x) { return reduce("sum", x, 1.0); }
Tensor sum(const Tensor& x, int dim, bool keepdim) {
  return reduce("sum", x, checked_dimension("sum", x.shape(), dim), keepdim, 1.0);
}

Tensor mean(const Tensor& x) {
  require<ShapeError>(x.numel() > 0, "mean: x has shape {}, no elements have no mean", x.shape());
  return reduce("mean", x, static_cast<double>(x.numel()));
}
Tensor mean(const Tensor& x, int dim, bool keepdim) {
  dim = checked_dimension("mean", x.shape(), dim);
  require<ShapeError>(x.shape()[dim] > 0, "mean: x has shape {}, no elements (dimension {}) have no mean", x.shape(),
                      dim);
  return reduce("mean", x, dim, keepdim, static_cast<double>(x.shape()[dim]));
}

}  // namespace heed
