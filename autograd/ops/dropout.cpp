#include "autograd/ops/dropout.hpp"

#include <cmath>
#include <limits>

#include "autograd/core/device.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

void check(const char* operation, const Tensor& x, double p, int64_t first_row) {
  require<DTypeError>(is_floating(x.dtype()), "{}: x is {}, it must be f32, bf16 or f64", operation, x.dtype());
  require<ValueError>(p >= 0 && p <= 1, "{}: p is {}, it must be between 0 and 1", operation, p);
  const int64_t rows = x.rank() == 0 ? 1 : x.shape().rows();
  require<ValueError>(first_row >= 0 && first_row <= std::numeric_limits<int64_t>::max() - rows,
                      "{}: first_row is {}, it must not be negative, nor so large that rows cannot be counted",
                      operation, first_row);
  // Every element has its own half of a random word, so their number must fit in int64_t.
  checked_multiply(first_row + rows, round_up(x.shape().columns(), 8));
}

// dx = dropout(dy) with the mask of the forward pass.
void backward_of_x(const Tensor& dy, Gradients& gradients, double p, const RandomStream& random, int64_t first_row) {
  const GradientSink dx = gradients.sink(0);
  if (!dx) return;
  HEED_DISPATCH(dy.device(), apply_dropout,
                {.y = dx.ref,
                 .x = dy,
                 .residual = dx.add ? ConstTensorRef(dx.ref) : ConstTensorRef(),
                 .p = p,
                 .random = random,
                 .first_row = first_row});
}

}  // namespace

uint32_t dropout_threshold(double p) { return static_cast<uint32_t>(std::llround(p * 0x1p16)); }
double dropout_rate(double p) { return dropout_threshold(p) * 0x1p-16; }
double dropout_scale(double p) { return dropout_rate(p) < 1 ? 1 / (1 - dropout_rate(p)) : 0; }

Tensor dropout(const Tensor& x, double p, const RandomStream& random, int64_t first_row) {
  check("dropout", x, p, first_row);
  if (dropout_threshold(p) == 0) return x;
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), apply_dropout, {.y = y.ref(), .x = x, .p = p, .random = random, .first_row = first_row});
  return record("dropout", std::move(y), {x}, [p, random, first_row](const Tensor& dy, Gradients& gradients) {
    backward_of_x(dy, gradients, p, random, first_row);
  });
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, const RandomStream& random, int64_t first_row) {
  check("dropout_add", x, p, first_row);
  require<ShapeError>(residual.shape() == x.shape(), "dropout_add: residual has shape {}, it must be that of x {}",
                      residual.shape(), x.shape());
  require<DTypeError>(residual.dtype() == x.dtype(), "dropout_add: residual is {} but x is {}", residual.dtype(),
                      x.dtype());
  require_one_device("dropout_add", {{"x", x}, {"residual", residual}});
  if (dropout_threshold(p) == 0) return add(residual, x);
  Output y(x.shape(), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), apply_dropout,
                {.y = y.ref(), .x = x, .residual = residual, .p = p, .random = random, .first_row = first_row});
  return record("dropout_add", std::move(y), {x, residual},
                [p, random, first_row](const Tensor& dy, Gradients& gradients) {
                  backward_of_x(dy, gradients, p, random, first_row);
                  gradients.alias(1, dy);
                });
}

}  // namespace heed
