#include "autograd/ops/matmul.hpp"

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

bool leading_dimensions_are_equal(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i + 2 < a.rank(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

void check(const Tensor& a, const Tensor& b) {
  require<DTypeError>(is_floating(a.dtype()), "matmul: a is {}, it must be f32, bf16 or f64", a.dtype());
  require<DTypeError>(b.dtype() == a.dtype(), "matmul: a is {} but b is {}", a.dtype(), b.dtype());
  require_one_device("matmul", {{"a", a}, {"b", b}});
  require<ShapeError>(a.rank() >= 2,
                      "matmul: a has shape {}, it must have two dimensions or more: reshape it to (1, {})", a.shape(),
                      a.numel());
  require<ShapeError>(b.rank() >= 2,
                      "matmul: b has shape {}, it must have two dimensions or more: reshape it to ({}, 1)", b.shape(),
                      b.numel());
  require<ShapeError>(
      b.shape()[-2] == a.shape()[-1],
      "matmul: b has shape {}, for a {} it must be ({}, N), or (..., {}, N) with the leading dimensions "
      "of a",
      b.shape(), a.shape(), a.shape()[-1], a.shape()[-1]);
  require<ShapeError>(
      b.rank() == 2 || leading_dimensions_are_equal(a.shape(), b.shape()),
      "matmul: a has shape {} but b has shape {}: b must be a matrix, or have the leading dimensions of "
      "a (they are not broadcast)",
      a.shape(), b.shape());
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  check(a, b);
  Output y(a.shape().with_last(b.shape()[-1]), a.dtype(), a.device());
  HEED_DISPATCH(a.device(), matmul_forward, {.y = y.ref(), .a = a, .b = b});
  return record("matmul", std::move(y), {a, b}, [a, b](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(a.device(), matmul_backward,
                  {.da = gradients.sink(0),
                   .db = gradients.sink(1, {.accumulation_dtype = b.rank() == 2}),
                   .dy = dy,
                   .a = a,
                   .b = b});
  });
}

}  // namespace heed
