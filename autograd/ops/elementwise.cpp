#include "autograd/ops/elementwise.hpp"

#include <cmath>

#include "autograd/core/accumulate.hpp"
#include "autograd/core/device.hpp"
#include "autograd/ops/broadcast.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const char* operation, const Tensor& x) {
  require<DTypeError>(is_floating(x.dtype()), "{}: x is {}, it must be f32, bf16 or f64", operation, x.dtype());
}

void check(const char* operation, const Tensor& a, const Tensor& b) {
  require<DTypeError>(is_floating(a.dtype()), "{}: a is {}, it must be f32, bf16 or f64", operation, a.dtype());
  require<DTypeError>(a.dtype() == b.dtype(), "{}: a is {} but b is {}", operation, a.dtype(), b.dtype());
  require_one_device(operation, {{"a", a}, {"b", b}});
}

// The operation of a and b in their common shape, which differs from that of at least one.
Tensor broadcast(const char* name, Tensor (*operation)(const Tensor&, const Tensor&), const Tensor& a,
                 const Tensor& b) {
  const Shape shape = broadcast_shape(a.shape(), b.shape(), name);
  return operation(a.shape() == shape ? a : expand(a, shape), b.shape() == shape ? b : expand(b, shape));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  check("add", a, b);
  if (a.shape() != b.shape()) return broadcast("add", add, a, b);
  Output y(a.shape(), a.dtype(), a.device());
  HEED_DISPATCH(a.device(), add, y.ref(), a, b);
  return record("add", std::move(y), {a, b}, [](const Tensor& dy, Gradients& gradients) {
    gradients.alias(0, dy);
    gradients.alias(1, dy);
  });
}

Tensor sub(const Tensor& a, const Tensor& b) {
  check("sub", a, b);
  if (a.shape() != b.shape()) return broadcast("sub", sub, a, b);
  Output y(a.shape(), a.dtype(), a.device());
  HEED_DISPATCH(a.device(), subtract, {.y = {y.ref()}, .a = a, .b = b});
  return record("sub", std::move(y), {a, b}, [](const Tensor& dy, Gradients& gradients) {
    gradients.alias(0, dy);
    HEED_DISPATCH(dy.device(), multiply_by, {.y = gradients.sink(1), .x = dy, .scalar = -1});
  });
}

Tensor mul(const Tensor& a, const Tensor& b) {
  check("mul", a, b);
  if (a.shape() != b.shape()) return broadcast("mul", mul, a, b);
  Output y(a.shape(), a.dtype(), a.device());
  HEED_DISPATCH(a.device(), multiply, {.y = {y.ref()}, .a = a, .b = b});
  return record("mul", std::move(y), {a, b}, [a, b](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(a.device(), multiply, {.y = gradients.sink(0), .a = dy, .b = b});
    HEED_DISPATCH(a.device(), multiply, {.y = gradients.sink(1), .a = dy, .b = a});
  });
}

Tensor div(const Tensor& a, const Tensor& b) {
  check("div", a, b);
  if (a.shape() != b.shape()) return broadcast("div", div, a, b);
  Output y(a.shape(), a.dtype(), a.device());
  HEED_DISPATCH(a.device(), divide, {.y = {y.ref()}, .a = a, .b = b});
  return record("div", std::move(y), {a, b}, [a, b](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(a.device(), divide, {.y = gradients.sink(0), .a = dy, .b = b});
    HEED_DISPATCH(a.device(), div_backward, {.db = gradients.sink(1), .dy = dy, .a = a, .b = b});
  });
}

Tensor scale(const Tensor& x, double factor) {
  check("scale", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), multiply_by, {.y = {y.ref()}, .x = x, .scalar = factor});
  return record("scale", std::move(y), {x}, [factor](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), multiply_by, {.y = gradients.sink(0), .x = dy, .scalar = factor});
  });
}

Tensor add_scalar(const Tensor& x, double value) {
  check("add_scalar", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), add_scalar, {.y = {y.ref()}, .x = x, .scalar = value});
  return record("add_scalar", std::move(y), {x},
                [](const Tensor& dy, Gradients& gradients) { gradients.alias(0, dy); });
}

Tensor gelu(const Tensor& x) {
  check("gelu", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), gelu_forward, {.y = y.ref(), .x = x});
  return record("gelu", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), gelu_backward, {.dx = gradients.sink(0, {.reuse = &x}), .dy = dy, .x = x});
  });
}

Tensor gelu_erf(const Tensor& x) {
  check("gelu_erf", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), gelu_erf_forward, {.y = y.ref(), .x = x});
  return record("gelu_erf", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), gelu_erf_backward, {.dx = gradients.sink(0, {.reuse = &x}), .dy = dy, .x = x});
  });
}

Tensor silu(const Tensor& x) {
  check("silu", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), silu_forward, {.y = y.ref(), .x = x});
  return record("silu", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), silu_backward, {.dx = gradients.sink(0, {.reuse = &x}), .dy = dy, .x = x});
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

Tensor relu2(const Tensor& x) {
  check("relu2", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), relu2_forward, {.y = y.ref(), .x = x});
  return record("relu2", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(x.device(), relu2_backward, {.dx = gradients.sink(0, {.reuse = &x}), .dy = dy, .x = x});
  });
}

Tensor tanh(const Tensor& x) {
  check("tanh", x);
  Output out(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), tanh_forward, {.y = out.ref(), .x = x});
  const Tensor y = out.saved();
  return record("tanh", std::move(out), {x}, [y](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), tanh_backward, {.dx = gradients.sink(0, {.reuse = &y}), .dy = dy, .y = y});
  });
}

Tensor softcap(const Tensor& x, double cap) {
  check("softcap", x);
  require<ValueError>(cap > 0 && std::isfinite(cap), "softcap: cap is {}, it must be above 0", cap);
  Output out(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), softcap_forward, {.y = {out.ref()}, .x = x, .scalar = cap});
  const Tensor y = out.saved();
  return record("softcap", std::move(out), {x}, [y, cap](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), softcap_backward,
                  {.dx = gradients.sink(0, {.reuse = &y}), .dy = dy, .y = y, .cap = cap});
  });
}

Tensor sigmoid(const Tensor& x) {
  check("sigmoid", x);
  Output out(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), sigmoid_forward, {.y = out.ref(), .x = x});
  const Tensor y = out.saved();
  return record("sigmoid", std::move(out), {x}, [y](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), sigmoid_backward, {.dx = gradients.sink(0, {.reuse = &y}), .dy = dy, .y = y});
  });
}

Tensor exp(const Tensor& x) {
  check("exp", x);
  Output out(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), exp_forward, {.y = out.ref(), .x = x});
  const Tensor y = out.saved();
  return record("exp", std::move(out), {x}, [y](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), multiply, {.y = gradients.sink(0, {.reuse = &y}), .a = dy, .b = y});
  });
}

Tensor log(const Tensor& x) {
  check("log", x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), log_forward, {.y = y.ref(), .x = x});
  return record("log", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), divide, {.y = gradients.sink(0, {.reuse = &x}), .a = dy, .b = x});
  });
}

}  // namespace heed
