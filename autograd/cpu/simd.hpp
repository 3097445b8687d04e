// SIMD helpers for kernels that are compiled once per instruction set (Highway's dynamic dispatch).
//
// Highway's own math functions do not propagate NaN and Inf (Exp(NaN) = 0, Log(NaN) = 89). Kernels must therefore use
// only the Exp, Log, Tanh, Max and Min of this header, and the functions built on them. A kernel file defines
// HWY_TARGET_INCLUDE as itself, includes hwy/foreach_target.h, then this header.
#if defined(HEED_AUTOGRAD_CPU_SIMD_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_SIMD_HPP
#undef HEED_AUTOGRAD_CPU_SIMD_HPP
#else
#define HEED_AUTOGRAD_CPU_SIMD_HPP
#endif

#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <limits>

#include "autograd/core/dtype.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Vec = hn::Vec<D>;

// Whether the CPU has 32 vector registers (AVX-512, arm64) instead of 16. Register tiles then have twice the rows.
constexpr bool kManyRegisters = HWY_MAX_BYTES >= 64 || HWY_ARCH_ARM_A64;

// Loads the first n (< Lanes) elements and sets the others to zero. Does not access memory after element n - 1.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE Vec<D> load_first(D d, const T* HWY_RESTRICT p, int64_t n) {
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(T));
  return hn::Load(d, buffer);
#endif
}

template <class D, class T = hn::TFromD<D>>
HWY_INLINE void store_first(Vec<D> v, D d, T* HWY_RESTRICT p, int64_t n) {
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(n)), d, p);
#else
  HWY_ALIGN T buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(T));
#endif
}

// Loads and stores a vector in the storage dtype: bf16 is widened to f32 when loaded and rounded to nearest even when
// stored.
template <class D>
HWY_INLINE Vec<D> load_from(D d, const hn::TFromD<D>* p) {
  return hn::LoadU(d, p);
}
template <class D>
HWY_INLINE Vec<D> load_from(D d, const Bf16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &p->bits))));
}

template <class D>
HWY_INLINE void store_to(Vec<D> v, D d, hn::TFromD<D>* p) {
  hn::StoreU(v, d, p);
}
template <class D>
HWY_INLINE void store_to(Vec<D> v, D, Bf16* p) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di32;
  const auto wide = hn::BitCast(d32, v);
  const auto odd = hn::And(hn::ShiftRight<16>(wide), hn::Set(d32, 1u));
  const auto rounded = hn::Add(wide, hn::Add(odd, hn::Set(d32, 0x7FFFu)));
  const auto quiet = hn::Or(wide, hn::Set(d32, 0x00400000u));
  const auto upper = hn::ShiftRight<16>(hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet, rounded));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, upper)), d16, &p->bits);
}

// bf16 uses a buffer: a masked load of 16-bit elements may access memory after the last element.
template <class D>
HWY_INLINE Vec<D> load_first(D d, const Bf16* HWY_RESTRICT p, int64_t n) {
  Bf16 buffer[hn::MaxLanes(D())] = {};
  std::memcpy(buffer, p, static_cast<size_t>(n) * sizeof(Bf16));
  return load_from(d, buffer);
}
template <class D>
HWY_INLINE void store_first(Vec<D> v, D d, Bf16* HWY_RESTRICT p, int64_t n) {
  Bf16 buffer[hn::MaxLanes(D())];
  store_to(v, d, buffer);
  std::memcpy(p, buffer, static_cast<size_t>(n) * sizeof(Bf16));
}

#if HWY_TARGET <= HWY_AVX3
// AVX512_BF16 instructions, which Highway does not expose; call these only if has_bf16_dot(). An operand is a vector of
// pairs: each 32-bit lane holds two bf16, the one with the lower index in the lower half. The instructions treat
// subnormal numbers as 0.

// sum + a_low * b_low + a_high * b_high for each lane, in f32.
HWY_INLINE Vec<hn::ScalableTag<float>> add_pair_products(Vec<hn::ScalableTag<float>> sum,
                                                         Vec<hn::ScalableTag<uint32_t>> a,
                                                         Vec<hn::ScalableTag<uint32_t>> b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}
// The bits of v rounded to bf16, to nearest even.
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, hn::ScalableTag<float>>> round_to_bf16(Vec<hn::ScalableTag<float>> v) {
  hn::Vec<hn::Rebind<uint16_t, hn::ScalableTag<float>>> bits;
  asm("vcvtneps2bf16 %1, %0" : "=v"(bits.raw) : "v"(v.raw));
  return bits;
}
HWY_INLINE void store_rounded(Vec<hn::ScalableTag<float>> v, Bf16* p) {
  hn::StoreU(round_to_bf16(v), hn::Rebind<uint16_t, hn::ScalableTag<float>>(), &p->bits);
}
// Interleaves two vectors of bf16 into pairs.
template <class D, class Bits = hn::Vec<hn::Rebind<uint16_t, D>>>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> pair_of(D, Bits low, Bits high) {
  const hn::RebindToUnsigned<D> du;
  return hn::Or(hn::PromoteTo(du, low), hn::ShiftLeft<16>(hn::PromoteTo(du, high)));
}
#endif

// Calls step(i, load, store) for each full vector of [0, n) and once for the tail. load(p) and store(v, p) access p
// from element i on; p points to elements of D's type or bf16.
template <class D, class Step>
HWY_INLINE void for_each_vector(D d, int64_t n, Step&& step) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    step(
        i, [&](const auto* p) HWY_ATTR { return load_from(d, p + i); },
        [&](Vec<D> v, auto* p) HWY_ATTR { store_to(v, d, p + i); });
  }
  if (i < n) {
    step(
        i, [&](const auto* p) HWY_ATTR { return load_first(d, p + i, n - i); },
        [&](Vec<D> v, auto* p) HWY_ATTR { store_first(v, d, p + i, n - i); });
  }
}

// These are function objects, since argument-dependent lookup would add Highway's functions of the same name to the
// overload set and would mostly prefer them.

// e^x, relative error below 2e-7 in f32. NaN propagates, e^Inf = Inf, e^-Inf = 0; results below 2.7e-38 (f32,
// x < -86.5) are flushed to 0. f32 has its own implementation for speed: e^x = 2^n e^r with |r| <= ln(2) / 2 and a
// minimax polynomial of degree 6.
inline constexpr struct ExpFunction {
  template <class D, class V = Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    if constexpr (sizeof(hn::TFromD<D>) == 8) {
      const V y = hn::IfThenElse(hn::Gt(x, hn::Set(d, 709.782712893384)),
                                 hn::Set(d, std::numeric_limits<double>::infinity()), hn::Exp(d, x));
      return hn::IfThenElse(hn::IsNaN(x), x, y);
    } else {
      const hn::RebindToUnsigned<D> du;
      const V most = hn::Set(d, 89.0f);  // e^89 overflows to Inf
      const V bounded = hn::IfThenElse(hn::Gt(x, most), most, x);
      // Adding 1.5 * 2^23 rounds to an integer. Adding 126 more makes the low bits the biased exponent of 2^(n - 1).
      const V magic = hn::Set(d, 12582912.0f + 126.0f);
      const V rounded = hn::MulAdd(bounded, hn::Set(d, 1.44269504f), magic);
      const V n = hn::Sub(rounded, magic);
      const V half_power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, rounded)));
      // Cody-Waite reduction: ln 2 is split in two parts, the first one short enough that its multiple by n is exact.
      V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), bounded);
      r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
      V y = hn::Set(d, 1.38367945e-3f);
      for (const float coefficient : {8.37485678e-3f, 4.16682288e-2f, 0.166664198f, 0.499999911f, 1.0f, 1.0f}) {
        y = hn::MulAdd(y, r, hn::Set(d, coefficient));
      }
      return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -86.5f)), hn::Mul(hn::Add(y, y), half_power));
    }
  }
} Exp;

// Natural logarithm, error about 1e-7 relative to max(|result|, 1) in f32. NaN and negative x return NaN, 0 returns
// -Inf, Inf returns Inf.
inline constexpr struct LogFunction {
  template <class D, class V = Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    using T = hn::TFromD<D>;
    const V zero = hn::Zero(d), infinity = hn::Set(d, std::numeric_limits<T>::infinity());
    const V finite = hn::IfThenElse(hn::Lt(x, infinity), hn::Log(d, x), x);
    const V above = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), finite);
    return hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), above);
  }
} Log;

// Hyperbolic tangent, relative error about 1e-7 in f32: -1 at -Inf, 1 at Inf, NaN propagates.
inline constexpr struct TanhFunction {
  template <class D, class V = Vec<D>>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
  }
} Tanh;

// max(a, b); NaN if either is NaN.
inline constexpr struct MaxFunction {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    const V larger = hn::IfThenElse(hn::Gt(a, b), a, b);
    return hn::IfThenElse(hn::IsNaN(a), a, larger);
  }
} Max;

// max(a, b); b if a is NaN. For a running maximum b that must not become NaN; the NaN shows elsewhere.
template <class V>
HWY_INLINE V larger(V a, V b) {
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR
  return hn::Max(a, b);  // MAXPS and MAXPD have exactly this behaviour, at a third of the latency
#else
  return hn::IfThenElse(hn::Gt(a, b), a, b);
#endif
}

// min(a, b); NaN if either is NaN.
inline constexpr struct MinFunction {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    const V smaller = hn::IfThenElse(hn::Lt(a, b), a, b);
    return hn::IfThenElse(hn::IsNaN(a), a, smaller);
  }
} Min;

// 1 / (1 + e^-x): 0 at -Inf, 1 at Inf, NaN propagates.
template <class D, class V = Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// Sum of value(load) over [0, n); four partial sums hide the latency of the addition.
template <class D, class Value, class T = hn::TFromD<D>>
HWY_INLINE T sum_of(D d, int64_t n, Value&& value) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  const auto at = [&](int64_t offset)
                      HWY_ATTR { return value([&](const auto* p) HWY_ATTR { return load_from(d, p + i + offset); }); };
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, at(0));
    sum1 = hn::Add(sum1, at(lanes));
    sum2 = hn::Add(sum2, at(2 * lanes));
    sum3 = hn::Add(sum3, at(3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, at(0));
  if (i < n) {
    const auto tail = value([&](const auto* p) HWY_ATTR { return load_first(d, p + i, n - i); });
    sum1 = hn::Add(sum1, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), tail));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

// Maximum of value(load) over [0, n); NaN if any value is NaN, -Inf if n = 0.
template <class D, class Value, class T = hn::TFromD<D>>
HWY_INLINE T max_of(D d, int64_t n, Value&& value) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  auto max0 = lowest, max1 = lowest;
  int64_t i = 0;
  const auto at = [&](int64_t offset)
                      HWY_ATTR { return value([&](const auto* p) HWY_ATTR { return load_from(d, p + i + offset); }); };
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    max0 = Max(max0, at(0));
    max1 = Max(max1, at(lanes));
  }
  for (; i + lanes <= n; i += lanes) max0 = Max(max0, at(0));
  if (i < n) {
    const auto tail = value([&](const auto* p) HWY_ATTR { return load_first(d, p + i, n - i); });
    max1 = Max(max1, hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(n - i)), tail, lowest));
  }
  const auto max = Max(max0, max1);
  if (!hn::AllFalse(d, hn::IsNaN(max))) return std::numeric_limits<T>::quiet_NaN();
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
