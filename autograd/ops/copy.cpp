#include "autograd/ops/copy.hpp"

#include <algorithm>

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {

Tensor copy(const Tensor& x) {
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), copy_elements, y.ref(), x);
  return record("copy", std::move(y), {x}, [](const Tensor& dy, Gradients& gradients) { gradients.alias(0, dy); });
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  require<ShapeError>(x.numel() == shape.numel(), "reshape: x has shape {} and {} elements, but {} has {}", x.shape(),
                      x.numel(), shape, shape.numel());
  Output y(shape, x.dtype(), x.device());
  HEED_DISPATCH(x.device(), copy_elements, y.ref(), x);
  return record("reshape", std::move(y), {x},
                [from = x.shape()](const Tensor& dy, Gradients& gradients) { gradients.alias(0, dy.slice(0, from)); });
}

Tensor reshape(const Tensor& x, std::initializer_list<int64_t> dimensions) {
  const auto unknown = std::count(dimensions.begin(), dimensions.end(), -1);
  if (unknown == 0) return reshape(x, Shape(dimensions));
  require<ShapeError>(unknown == 1, "reshape: one dimension of ({}) may be -1, not {}", fmt::join(dimensions, ", "),
                      unknown);
  int64_t known = 1;
  for (const int64_t dimension : dimensions) known = dimension == -1 ? known : checked_multiply(known, dimension);
  require<ShapeError>(known > 0 && x.numel() % known == 0,
                      "reshape: x has shape {} and {} elements, which leave no size for -1 in ({})", x.shape(),
                      x.numel(), fmt::join(dimensions, ", "));
  Shape shape;
  for (const int64_t dimension : dimensions)
    shape = shape.with_appended(dimension == -1 ? x.numel() / known : dimension);
  return reshape(x, shape);
}

Tensor cast(const Tensor& x, DType dtype) {
  require<DTypeError>(is_floating(x.dtype()) && is_floating(dtype),
                      "cast: from {} to {}, both must be f32, bf16 or f64", x.dtype(), dtype);
  Output y(x.shape(), dtype, x.device());
  HEED_DISPATCH(x.device(), cast_elements, y.ref(), x);
  return record("cast", std::move(y), {x}, [](const Tensor& dy, Gradients& gradients) {
    if (gradients.needed(0)) HEED_DISPATCH(dy.device(), cast_elements, gradients.fresh(0), dy);
  });
}

}  // namespace heed
