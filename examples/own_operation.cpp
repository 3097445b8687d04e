// A custom operation in one file: softplus(x) = log(1 + e^x), and its gradient against finite differences.
#include <fmt/core.h>

#include <cmath>

#include "autograd/check/gradcheck.hpp"
#include "autograd/tape.hpp"

using namespace heed;

// y = max(x, 0) + log(1 + e^-|x|), which does not overflow    dx = dy / (1 + e^-x)
template <class T>
void softplus_forward(const TensorRef& y, const ConstTensorRef& x) {
  for (int64_t i = 0; i < x.shape.numel(); ++i) {
    const T value = x.as<T>()[i];
    y.as<T>()[i] = std::max(value, T(0)) + std::log1p(std::exp(-std::abs(value)));
  }
}

template <class T>
void softplus_backward(const GradientSink& dx, const ConstTensorRef& dy, const ConstTensorRef& x) {
  for (int64_t i = 0; i < x.shape.numel(); ++i) {
    const T gradient = dy.as<T>()[i] / (1 + std::exp(-x.as<T>()[i]));
    T& result = dx.ref.as<T>()[i];
    result = dx.add ? result + gradient : gradient;  // the tape says whether to accumulate
  }
}

// x: any shape, f32 or f64, on the CPU. Saves x for backward.
Tensor softplus(const Tensor& x) {
  require<DTypeError>(is_accumulation_dtype(x.dtype()), "softplus: x is {}, it must be f32 or f64", x.dtype());
  Output y(x.shape(), x.dtype(), x.device());
  visit_accumulation(x.dtype(), [&](auto zero) { softplus_forward<decltype(zero)>(y.ref(), x); });
  return record("softplus", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    const GradientSink dx = gradients.sink(0);
    if (!dx) return;  // no gradient is needed
    visit_accumulation(x.dtype(), [&](auto zero) { softplus_backward<decltype(zero)>(dx, dy, x); });
  });
}

int main() {
  const Tensor x = from_values({2, 3}, DType::f64, {-30, -1.5, 0, 0.5, 2, 30});
  const GradcheckResult result = gradcheck([&] { return softplus(x); }, {{"x", x}});
  fmt::print("softplus(0) = {:.6f}, {} gradients checked: {}\n", softplus(x).values()[2], result.checked,
             result.passed ? "right" : result.text());
}
