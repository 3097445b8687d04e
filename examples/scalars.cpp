// Gradients of a few scalars, as micrograd computes them: one neuron of two inputs, and a polynomial.
#include <fmt/core.h>

#include "autograd/autograd.hpp"

using namespace heed;

Tensor parameter(double value) { return full({}, DType::f64, value).set_requires_grad(true); }

int main() {
  // o = tanh(x1 w1 + x2 w2 + b)
  const Tensor x1 = parameter(2), x2 = parameter(0), w1 = parameter(-3), w2 = parameter(1), b = parameter(6.5);
  const Tensor o = tanh(x1 * w1 + x2 * w2 + b);
  backward(o);
  fmt::print("o = {:.4f}\n", o.item());
  fmt::print("do/dx1 = {:.4f}, do/dw1 = {:.4f}\n", x1.grad().item(), w1.grad().item());
  fmt::print("do/dx2 = {:.4f}, do/dw2 = {:.4f}\n", x2.grad().item(), w2.grad().item());

  // z is used twice, so its gradient is the sum of both uses: dy/dz = 3 z^2 - 2 = 10.
  const Tensor z = parameter(2);
  const Tensor y = z * z * z - 2 * z + 1;
  backward(y);
  fmt::print("y = {:.4f}, dy/dz = {:.4f}\n", y.item(), z.grad().item());
}
