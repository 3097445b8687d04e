#include "autograd/ops/elementwise.hpp"

#include "autograd/core/accumulate.hpp"
#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const char* operation, const Tensor& x) {
  require<DTypeError>(is_floating(x.dtype()), "{}: x is {}, it must be f32, bf16 or f64", operation, x.dtype());
}

void check(const char* operation, const Tensor& a, const Tensor& b) {
  require<DTypeError>(is_floating(a.dtype()), "{}: a is {}, it must be f32, bf16 or f64", operation, a.dtype());
  require<DTypeError>(a.dtype() == b.dtype(), "{}: a is {} but b is {}", operation, a.dtype(), b.dtype());
  require<ShapeError>(a.shape() == b.shape(), "{}: a has shape {} but b has shape {}, they must be the same", operation,
                      a.shape(), b.shape());
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  check("add", a, b);
  Output y(a.shape(), a.dtype(), a.device());
  HEED_DISPATCH(a.device(), add, y.ref(), a, b);
  return record("add", std::move(y), {a, b}, [](const Tensor& dy, Gradients& gradients) {
    gradients.alias(0, dy);
    gradients.alias(1, dy);
  });
}

Tensor mul(const Tensor& a, const Tensor& b) {
  check("mul", a, b);
  Output y(a.shape(), a.dtype(), a.device());
  HEED_DISPATCH(a.device(), multiply, {.y = {y.ref()}, .a = a, .b = b});
  return record("mul", std::move(y), {a, b}, [a, b](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(a.device(), multiply, {.y = gradients.sink(0), .a = dy, .b = b});
    HEED_DISPATCH(a.device(), multiply, {.y = gradients.sink(1), .a = dy, .b = a});
  });
}

Tensor scale(const Tensor& x, double factor) {
  check("scale", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), multiply_by, {.y = {y.ref()}, .x = x, .factor = factor});
  return record("scale", std::move(y), {x}, [factor](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), multiply_by, {.y = gradients.sink(0), .x = dy, .factor = factor});
  });
}

Tensor gelu(const Tensor& x) {
  check("gelu", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), gelu_forward, {.y = y.ref(), .x = x});
  return record("gelu", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), gelu_backward, {.dx = gradients.sink(0, {.reuse = &x}), .dy = dy, .x = x});
  });
}

Tensor relu(const Tensor& x) {
  check("relu", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), relu_forward, {.y = y.ref(), .x = x});
  return record("relu", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), relu_backward, {.dx = gradients.sink(0, {.reuse = &x}), .dy = dy, .x = x});
  });
}

}  // namespace heed
