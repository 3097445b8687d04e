// Vector functions of the base-2 softmax.
// Included once per SIMD target, like simd.hpp.
#if defined(HEED_AUTOGRAD_OPS_ATTENTION_SOFTMAX_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_OPS_ATTENTION_SOFTMAX_HPP
#undef HEED_AUTOGRAD_OPS_ATTENTION_SOFTMAX_HPP
#else
#define HEED_AUTOGRAD_OPS_ATTENTION_SOFTMAX_HPP
#endif

#include <algorithm>
#include <numbers>

#include "autograd/cpu/simd.hpp"
#include "autograd/ops/attention/mask.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// The lanes of v within [range.begin, range.end), `other` in the remaining ones.
template <class D>
HWY_INLINE Vec<D> lanes_within_or(D d, Vec<D> v, PositionRange<int64_t> range, hn::TFromD<D> other) {
  const auto first = [&](int64_t n) HWY_ATTR {
    return hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(n, 0, static_cast<int64_t>(hn::Lanes(d)))));
  };
  const auto rest = hn::Set(d, other);
  if (range.end < static_cast<int64_t>(hn::Lanes(d))) v = hn::IfThenElse(first(range.end), v, rest);
  return range.begin > 0 ? hn::IfThenElse(first(range.begin), rest, v) : v;
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE T largest_lane(D d, Vec<D> v) {
  constexpr size_t kLanes = HWY_LANES(T);
  if constexpr (kLanes > 1) v = larger(v, hn::Reverse(d, v));
  if constexpr (kLanes >= 16) v = larger(v, hn::Reverse8(d, v));
  if constexpr (kLanes >= 8) v = larger(v, hn::Reverse4(d, v));
  if constexpr (kLanes >= 4) v = larger(v, hn::Reverse2(d, v));
  return hn::GetLane(v);
}

// The softmax is computed in base 2: scores are multiplied by log2(e) when they are computed (scores and their maxima
// are in units of log 2), so a probability is a power of 2, whose exponent is found without a multiplication.
inline constexpr double kLog2E = std::numbers::log2e;

// 2^x for x <= 0 (and a little above, by rounding), relative error 2e-7 in f32; 0 below the smallest normal number. NaN
// returns NaN, -Inf returns 0. Half the work of Exp, which matters: it is evaluated for every probability.
template <class D, class V = Vec<D>>
HWY_INLINE V exp2_of_negative(D d, V x) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return Exp(d, hn::Mul(x, hn::Set(d, std::numbers::ln2)));
  } else {
    // 2^x = 2^n 2^r with |r| <= 1 / 2; 2^r is a minimax polynomial of degree 5. Adding 1.5 * 2^23 rounds to an integer;
    // with 127 more, the low bits of the sum are the biased exponent of 2^n.
    const hn::RebindToUnsigned<D> du;
    const auto magic = hn::Set(d, 12583039.0f);
    const auto rounded = hn::Add(x, magic);
    const auto power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, rounded)));
    const auto r = hn::Sub(x, hn::Sub(rounded, magic));
    auto y = hn::Set(d, 1.32641813e-3f);
    y = hn::MulAdd(y, r, hn::Set(d, 9.67193861e-3f));
    y = hn::MulAdd(y, r, hn::Set(d, 5.55073880e-2f));
    y = hn::MulAdd(y, r, hn::Set(d, 2.40222350e-1f));
    y = hn::MulAdd(y, r, hn::Set(d, 6.93146944e-1f));
    y = hn::MulAdd(y, r, hn::Set(d, 1.0f));
    const auto underflow = hn::Lt(x, hn::Set(d, -126.0f));
    return hn::IfThenZeroElse(underflow, hn::Mul(y, power));
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
