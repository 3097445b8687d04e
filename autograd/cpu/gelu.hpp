// Vectorised GELU; the formula is in ops/elementwise.hpp.
// Included once per instruction set, like simd.hpp.
#if defined(HEED_AUTOGRAD_CPU_GELU_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_GELU_HPP
#undef HEED_AUTOGRAD_CPU_GELU_HPP
#else
#define HEED_AUTOGRAD_CPU_GELU_HPP
#endif

#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// GELU and its derivative at x, both computed from the gate sigmoid(2u).
template <class D>
class Gelu {
 public:
  using V = Vec<D>;

  HWY_INLINE Gelu(D d, V x) : x_(x), square_(bounded_square(d, x)) {
    const auto two_root = hn::Set(d, static_cast<T>(2 * kRoot)), cubic = hn::Set(d, static_cast<T>(2 * kRoot * kCubic));
    gate_ = Sigmoid(d, hn::Mul(x, hn::MulAdd(square_, cubic, two_root)));
  }

  HWY_INLINE V value() const { return hn::Mul(x_, gate_); }
  HWY_INLINE V derivative(D d) const {
    const auto two_root = hn::Set(d, static_cast<T>(2 * kRoot));
    const auto cubic = hn::Set(d, static_cast<T>(2 * kRoot * 3 * kCubic));
    const auto gate_derivative = hn::Mul(hn::NegMulAdd(gate_, gate_, gate_), hn::MulAdd(square_, cubic, two_root));
    return hn::MulAdd(x_, gate_derivative, gate_);
  }

 private:
  using T = hn::TFromD<D>;
  static constexpr double kRoot = 0.7978845608028654;  // sqrt(2/pi)
  static constexpr double kCubic = 0.044715;

  // min(x^2, 30^2): sigmoid(2u) saturates to 0 or 1 well before |x| = 30. The bound keeps u and u' from overflowing.
  static HWY_INLINE V bounded_square(D d, V x) { return Min(hn::Mul(x, x), hn::Set(d, static_cast<T>(900))); }

  V x_, square_, gate_;
};

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
