#include "autograd/ops/copy.hpp"

#include "autograd/core/dispatch.hpp"
#include "autograd/tape.hpp"

namespace heed {

Tensor copy(const Tensor& x) {
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), copy_elements, y.ref(), x);
  return record("copy", std::move(y), {x}, [](const Tensor& dy, Gradients& gradients) { gradients.pass(0, dy); });
}

}  // namespace heed
