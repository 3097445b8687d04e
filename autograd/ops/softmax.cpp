#include "autograd/ops/softmax.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

Tensor softmax_of(const char* operation, const Tensor& x, bool log) {
  require<DTypeError>(is_floating(x.dtype()), "{}: x is {}, it must be f32, bf16 or f64", operation, x.dtype());
  require<ShapeError>(x.rank() >= 1, "{}: x is a scalar, it needs a last dimension", operation);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), softmax_forward, {.y = y.ref(), .x = x, .log = log});
  const Tensor saved_y = y.saved();
  return record(operation, std::move(y), {x}, [saved_y, log](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), softmax_backward,
                  {.dx = gradients.sink(0, {.reuse = &saved_y}), .dy = dy, .y = saved_y, .log = log});
  });
}

}  // namespace

Tensor softmax(const Tensor& x) { return softmax_of("softmax", x, false); }
Tensor log_softmax(const Tensor& x) { return softmax_of("log_softmax", x, true); }

}  // namespace heed
