// Vectorised activation functions: value() and derivative(d) of each at x, computed from common parts. The formulas are
// in ops/elementwise.hpp; GELU in its tanh form is in gelu.hpp.
// Included once per instruction set, like simd.hpp.
#if defined(HEED_AUTOGRAD_CPU_ACTIVATION_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_ACTIVATION_HPP
#undef HEED_AUTOGRAD_CPU_ACTIVATION_HPP
#else
#define HEED_AUTOGRAD_CPU_ACTIVATION_HPP
#endif

#include <array>

#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class D>
class Silu {
 public:
  using V = Vec<D>;

  HWY_INLINE Silu(D d, V x) : gate_(Sigmoid(d, x)), value_(hn::Mul(x, gate_)) {}

  HWY_INLINE V value() const { return value_; }
  HWY_INLINE V derivative(D) const { return hn::Add(gate_, hn::NegMulAdd(value_, gate_, value_)); }

 private:
  V gate_, value_;
};

// Phi(x), the distribution function of the standard normal distribution, and its density. Phi is exact to a few
// roundings also where it is small, which 1 + erf(x / sqrt 2) is not. With z = |x| / sqrt 2 and t = (2 - z) / (2 + z):
//   Phi(-|x|) = erfc(z) / 2 = e^(-x^2 / 2) P(t) / (2 + z),    P(t) = (1 + z / 2) e^(z^2) erfc(z)
// P is smooth on [-1, 1]; its polynomial is a Chebyshev expansion, fitted in 50 digits. The substitution is that of
// Shepherd and Laframboise 1981 (Math. Comp. 36, 249-253), with the factor chosen so that one division is enough.
template <class D>
class Normal {
 public:
  using V = Vec<D>;

  HWY_INLINE Normal(D d, V x) {
    // Both functions have reached their limits there; the bound keeps Inf out of t.
    const V bounded = Min(hn::Abs(x), hn::Set(d, T(40)));
    const V power = Exp(d, hn::Mul(hn::Mul(bounded, bounded), hn::Set(d, T(-0.5))));
    const V z = hn::Mul(bounded, hn::Set(d, static_cast<T>(0.70710678118654752440)));
    const V two = hn::Set(d, T(2)), inverse = hn::Div(hn::Set(d, T(1)), hn::Add(two, z));
    const V tail = hn::Mul(hn::Mul(power, inverse), polynomial(d, hn::Mul(hn::Sub(two, z), inverse)));
    distribution_ = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(hn::Set(d, T(1)), tail), tail);
    density_ = hn::Mul(power, hn::Set(d, static_cast<T>(0.39894228040143267794)));  // 1 / sqrt(2 pi)
  }

  HWY_INLINE V distribution() const { return distribution_; }
  HWY_INLINE V density() const { return density_; }

 private:
  using T = hn::TFromD<D>;

  // P(t) by Horner's rule, relative error below 6e-8 (f32) and 1e-16 (f64) before rounding.
  static HWY_INLINE V polynomial(D d, V t) {
    const auto horner = [&](const auto& coefficients) HWY_ATTR {
      V y = hn::Zero(d);
      for (const T coefficient : coefficients) y = hn::MulAdd(y, t, hn::Set(d, coefficient));
      return y;
    };
    if constexpr (sizeof(T) == 4) {
      return horner(std::array{4.21611985e-05f, -3.66018758e-05f, -0.000299382722f, 0.00043067048f, 0.00152915716f,
                               -0.00324345194f, -0.0107516265f, 0.0182216689f, 0.139735729f, 0.343580306f,
                               0.510791361f});
    } else {
      return horner(std::array{
          1.20516659958836367e-9,   -1.059033314357179863e-9, -9.744756625932257797e-9,  1.321632551763264864e-8,
          2.904198544420908566e-8,  -6.965842943409138309e-8, -1.698272401293566619e-9,  1.786722947916853454e-7,
          -2.855481823834117166e-7, -1.375450823318594513e-8, 1.000918586265410114e-6,   -1.815035508054166564e-6,
          -5.628166935192924633e-7, 8.057875867147340403e-6,  -1.084805726889109577e-5,  -1.70737811338189144e-5,
          7.223535061438543348e-5,  -1.71858318748897515e-5,  -0.0003315367476194604425, 0.00041864804327911113,
          0.00154530602905764369,   -0.003239592534582067464, -0.01075533094471636388,   0.01822111575345903991,
          0.1397360462780268913,    0.3435803422069051367,    0.5107913526210114891});
    }
  }

  V distribution_, density_;
};

// The exact GELU, x Phi(x).
template <class D>
class GeluErf {
 public:
  using V = Vec<D>;

  HWY_INLINE GeluErf(D d, V x) : x_(x), normal_(d, x) {}

  HWY_INLINE V value() const { return hn::Mul(x_, normal_.distribution()); }
  HWY_INLINE V derivative(D) const { return hn::MulAdd(x_, normal_.density(), normal_.distribution()); }

 private:
  V x_;
  Normal<D> normal_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
