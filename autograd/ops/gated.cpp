#include "autograd/ops/gated.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

Tensor gated(const char* operation, const Tensor& h, Gate gate) {
  require<DTypeError>(is_floating(h.dtype()), "{}: h is {}, it must be f32, bf16 or f64", operation, h.dtype());
  require<ShapeError>(h.rank() >= 1 && h.shape().columns() % 2 == 0,
                      "{}: h has shape {}, its last dimension must be even: as many gates as values", operation,
                      h.shape());
  Output y(h.shape().with_last(h.shape().columns() / 2), h.dtype(), h.device());
  HEED_DISPATCH(h.device(), gated_forward, {.y = y.ref(), .h = h, .gate = gate});
  return record(operation, std::move(y), {h}, [h, gate](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(h.device(), gated_backward, {.dh = gradients.sink(0, {.reuse = &h}), .dy = dy, .h = h, .gate = gate});
  });
}

}  // namespace

Tensor swiglu(const Tensor& h) { return gated("swiglu", h, Gate::silu); }
Tensor geglu(const Tensor& h) { return gated("geglu", h, Gate::gelu); }

}  // namespace heed
