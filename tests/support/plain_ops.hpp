// Small operations for the tests of the tape: plain loops, no kernels. Each hands its gradients over in another way.
#pragma once

#include <cmath>

#include "autograd/core/philox.hpp"
#include "autograd/tape.hpp"

namespace heed::test {

// y[i] = f(a[i], b[i]), f on double.
template <class F>
void combine(const TensorRef& y, const ConstTensorRef& a, const ConstTensorRef& b, F f) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < y.shape.numel(); ++i) {
      y.as<T>()[i] = static_cast<T>(f(static_cast<double>(a.as<T>()[i]), static_cast<double>(b.as<T>()[i])));
    }
  });
}

// a + b; hands dy itself on to both.
inline Tensor plus(const Tensor& a, const Tensor& b) {
  Output y(a.shape(), a.dtype(), a.device());
  combine(y.ref(), a, b, [](double p, double q) { return p + q; });
  return record("plus", std::move(y), {a, b}, [](const Tensor& dy, Gradients& gradients) {
    gradients.alias(0, dy);
    gradients.alias(1, dy);
  });
}

// a * b; writes fresh gradients.
inline Tensor times(const Tensor& a, const Tensor& b) {
  Output y(a.shape(), a.dtype(), a.device());
  const auto product = [](double p, double q) { return p * q; };
  combine(y.ref(), a, b, product);
  return record("times", std::move(y), {a, b}, [a, b, product](const Tensor& dy, Gradients& gradients) {
    if (gradients.needed(0)) combine(gradients.fresh(0), dy, b, product);
    if (gradients.needed(1)) combine(gradients.fresh(1), dy, a, product);
  });
}

// ka * a + kb * b; adds into the gradients that are there.
inline Tensor weighted(const Tensor& a, double ka, const Tensor& b, double kb) {
  Output y(a.shape(), a.dtype(), a.device());
  combine(y.ref(), a, b, [=](double p, double q) { return ka * p + kb * q; });
  return record("weighted", std::move(y), {a, b}, [ka, kb](const Tensor& dy, Gradients& gradients) {
    // Both before either is written, and written from the last: as a kernel may do it.
    const GradientSink da = gradients.sink(0), db = gradients.sink(1);
    const auto write = [&](const GradientSink& sink, double k) {
      if (!sink) return;
      combine(sink.ref, sink.ref, dy, [&](double old, double g) { return (sink.add ? old : 0.0) + k * g; });
    };
    write(db, kb);
    write(da, ka);
  });
}

// k * x; writes a fresh gradient.
inline Tensor scaled(const Tensor& x, double k) {
  Output y(x.shape(), x.dtype(), x.device());
  const auto times_k = [k](double v, double) { return k * v; };
  combine(y.ref(), x, x, times_k);
  return record("scaled", std::move(y), {x}, [times_k](const Tensor& dy, Gradients& gradients) {
    if (gradients.needed(0)) combine(gradients.fresh(0), dy, dy, times_k);
  });
}

// Inverted dropout with p = 0.5: the mask is a function of the stream alone.
inline Tensor masked(const Tensor& x, const RandomStream& stream) {
  Output y(x.shape(), x.dtype(), x.device());
  const auto mask = [stream](const TensorRef& out, const ConstTensorRef& in) {
    uint64_t index = 0;
    combine(out, in, in, [&](double v, double) { return (stream.word(index++) >> 31) != 0 ? 2 * v : 0.0; });
  };
  mask(y.ref(), x);
  return record("masked", std::move(y), {x}, [mask](const Tensor& dy, Gradients& gradients) {
    if (gradients.needed(0)) mask(gradients.fresh(0), dy);
  });
}

// The sum of all elements, a scalar.
inline Tensor total(const Tensor& x) {
  Output y({}, x.dtype(), x.device());
  double sum = 0;
  for (const double v : x.values()) sum += v;
  visit_floating(x.dtype(), [&](auto zero) { *y.ref().as<decltype(zero)>() = static_cast<decltype(zero)>(sum); });
  return record("total", std::move(y), {x}, [](const Tensor& dy, Gradients& gradients) {
    const TensorRef dx = gradients.fresh(0);
    const double slope = dy.item();
    if (dx) combine(dx, dx, dx, [=](double, double) { return slope; });
  });
}

// A leaf that wants a gradient.
inline Tensor leaf(const Shape& shape, const std::vector<double>& values, DType dtype = DType::f64) {
  return from_values(shape, dtype, values).set_requires_grad(true);
}

// n values for a tensor, other ones for each number; exact in f32.
inline std::vector<double> some_values(int64_t n, uint32_t number) {
  const RandomStream stream{.seed = 5, .site = random_site(RandomDomain::test, number), .step = 0};
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(stream.normal(static_cast<uint64_t>(i))));
  return values;
}

}  // namespace heed::test
