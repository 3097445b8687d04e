#include "autograd/ops/copy.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {

Tensor copy(const Tensor& x) {
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), copy_elements, y.ref(), x);
  return record("copy", std::move(y), {x}, [](const Tensor& dy, Gradients& gradients) { gradients.alias(0, dy); });
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
