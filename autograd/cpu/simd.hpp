// Vector helpers for kernels compiled once per instruction set (Highway's dynamic dispatch).
//
// Highway's own math loses NaN and Inf (Exp(NaN) = 0, Log(NaN) = 89), so kernels take Exp, Max, Min and what is made of
// them from here only.
// A kernel file sets HWY_TARGET_INCLUDE to itself, includes hwy/foreach_target.h, then this header.
#if defined(HEED_AUTOGRAD_CPU_SIMD_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_SIMD_HPP
#undef HEED_AUTOGRAD_CPU_SIMD_HPP
#else
#define HEED_AUTOGRAD_CPU_SIMD_HPP
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Vec = hn::Vec<D>;

// The first n (< Lanes) elements, the others zero; touches no memory behind them.
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

// Calls step(i, load, store) over [0, n) in whole vectors and one tail; load(p) and store(v, p) reach element i of p.
template <class D, class Step>
HWY_INLINE void for_each_vector(D d, int64_t n, Step&& step) {
  using T = hn::TFromD<D>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    step(
        i, [&](const T* p) HWY_ATTR { return hn::LoadU(d, p + i); },
        [&](Vec<D> v, T* p) HWY_ATTR { hn::StoreU(v, d, p + i); });
  }
  if (i < n) {
    step(
        i, [&](const T* p) HWY_ATTR { return load_first(d, p + i, n - i); },
        [&](Vec<D> v, T* p) HWY_ATTR { store_first(v, d, p + i, n - i); });
  }
}

// e^x with NaN and ±Inf passed on: e^NaN = NaN, e^Inf = Inf, e^-Inf = 0.
template <class D, class V = Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  using T = hn::TFromD<D>;
  const V overflow = hn::Set(d, sizeof(T) == 8 ? static_cast<T>(709.782712893384) : static_cast<T>(88.7228394));
  V y = hn::Exp(d, x);
  y = hn::IfThenElse(hn::Gt(x, overflow), hn::Set(d, std::numeric_limits<T>::infinity()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// The larger one; NaN where either is NaN.
template <class V>
HWY_INLINE V Max(V a, V b) {
  const V larger = hn::IfThenElse(hn::Gt(a, b), a, b);
  return hn::IfThenElse(hn::IsNaN(a), a, larger);
}

// The smaller one; NaN where either is NaN.
template <class V>
HWY_INLINE V Min(V a, V b) {
  const V smaller = hn::IfThenElse(hn::Lt(a, b), a, b);
  return hn::IfThenElse(hn::IsNaN(a), a, smaller);
}

// 1 / (1 + e^-x): 0 at -Inf, 1 at Inf, NaN stays.
template <class D, class V = Vec<D>>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// Sum over [0, n) of value(load), four partial sums to hide the latency of the addition.
template <class D, class Value, class T = hn::TFromD<D>>
HWY_INLINE T sum_of(D d, int64_t n, Value&& value) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  const auto at = [&](int64_t offset)
                      HWY_ATTR { return value([&](const T* p) HWY_ATTR { return hn::LoadU(d, p + i + offset); }); };
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    sum0 = hn::Add(sum0, at(0));
    sum1 = hn::Add(sum1, at(lanes));
    sum2 = hn::Add(sum2, at(2 * lanes));
    sum3 = hn::Add(sum3, at(3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) sum0 = hn::Add(sum0, at(0));
  if (i < n) {
    const auto tail = value([&](const T* p) HWY_ATTR { return load_first(d, p + i, n - i); });
    sum1 = hn::Add(sum1, hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(n - i)), tail));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
