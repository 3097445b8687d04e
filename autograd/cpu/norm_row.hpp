// LayerNorm (Centered) and RMSNorm of one row, forward and backward: the formulas are in ops/layer_norm.hpp and
// ops/rms_norm.hpp. RMSNorm has no mean and no bias.
// Included once per instruction set, like simd.hpp.
#if defined(HEED_AUTOGRAD_CPU_NORM_ROW_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEED_AUTOGRAD_CPU_NORM_ROW_HPP
#undef HEED_AUTOGRAD_CPU_NORM_ROW_HPP
#else
#define HEED_AUTOGRAD_CPU_NORM_ROW_HPP
#endif

#include <cmath>

#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// weight nullptr: 1. bias nullptr: 0. mean: only if Centered.
template <class T, class C = AccumT<T>>
struct NormalizeRow {
  T* y;
  C *mean, *rstd;
  const T* x;
  const C *weight, *bias;
  C eps;
  int64_t columns;
};

// dx nullptr: not needed; it may be x. dweight and dbias: sums to add to, or nullptr. mean: only if Centered.
// add is a reference to the sink's own: the compiler then tests it for each vector, and does not fuse the addition to
// dx with the multiplication before it, which would round once less.
template <class T, class C = AccumT<T>>
struct DifferentiateRow {
  T* dx;
  const bool& add;
  C *dweight, *dbias;
  const T *dy, *x;
  const C* weight;
  C mean, rstd;
  int64_t columns;
};

template <bool Centered, class T>
HWY_INLINE void normalize_row(const NormalizeRow<T>& p) {
  using C = AccumT<T>;
  const hn::ScalableTag<C> d;
  const T* x = p.x;
  C mean = 0;
  if constexpr (Centered) {
    mean = sum_of(d, p.columns, [&](auto load) HWY_ATTR { return load(x); }) / static_cast<C>(p.columns);
  }
  const auto vmean = hn::Set(d, mean);
  const auto centered = [&](auto v) HWY_ATTR {
    if constexpr (Centered) return hn::Sub(v, vmean);
    return v;
  };
  const C squares = sum_of(d, p.columns, [&](auto load) HWY_ATTR {
    const auto value = centered(load(x));
    return hn::Mul(value, value);
  });
  const C rstd = C(1) / std::sqrt(squares / static_cast<C>(p.columns) + p.eps);
  const auto vrstd = hn::Set(d, rstd);
  T* y = p.y;
  const C *weight = p.weight, *bias = p.bias;
  const auto write = [&](auto gain_of) HWY_ATTR {
    for_each_vector(d, p.columns, [&](int64_t, auto load, auto store) HWY_ATTR {
      const auto normalized = hn::Mul(centered(load(x)), vrstd), gain = gain_of(load);
      store(bias == nullptr ? hn::Mul(normalized, gain) : hn::MulAdd(normalized, gain, load(bias)), y);
    });
  };
  // Not for each vector: see differentiate_row_with_gain().
  if (weight == nullptr) {
    write([&](auto) HWY_ATTR { return hn::Set(d, C(1)); });
  } else {
    write([&](auto load) HWY_ATTR { return load(weight); });
  }
  if constexpr (Centered) *p.mean = mean;
  *p.rstd = rstd;
}

// gain_of(load): the vector of gains. Whether there are gains is tested once for a row: a test for each vector would
// cost a tenth of the time, and keep the compiler from fusing multiplications and additions.
template <bool Centered, class T, class Gain>
HWY_INLINE void differentiate_row_with_gain(const DifferentiateRow<T>& p, const Gain& gain_of) {
  using C = AccumT<T>;
  const hn::ScalableTag<C> d;
  const int64_t columns = p.columns;
  const T *x = p.x, *dy = p.dy;
  C *dweight = p.dweight, *dbias = p.dbias;
  const auto vmean = hn::Set(d, p.mean), vrstd = hn::Set(d, p.rstd);
  const auto normalized_of = [&](auto v) HWY_ATTR {
    if constexpr (Centered) return hn::Mul(hn::Sub(v, vmean), vrstd);
    return hn::Mul(v, vrstd);
  };
  auto sum_g = hn::Zero(d), sum_gx = hn::Zero(d);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_each_vector(d, columns, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto gradient = load(dy);
    auto normalized = normalized_of(load(x));
    // Lanes past the end of the row hold (0 - mean) * rstd, which may be Inf, and 0 * Inf would make the sum NaN.
    if (i + lanes > columns) {
      normalized = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(columns - i)), normalized);
    }
    const auto g = hn::Mul(gradient, gain_of(load));
    if constexpr (Centered) sum_g = hn::Add(sum_g, g);
    sum_gx = hn::MulAdd(g, normalized, sum_gx);
    if (dweight != nullptr) store(hn::MulAdd(gradient, normalized, load(dweight)), dweight);
    if (dbias != nullptr) store(hn::Add(gradient, load(dbias)), dbias);
  });
  if (p.dx == nullptr) return;
  T* dx = p.dx;
  const auto mean_g = hn::Div(hn::SumOfLanes(d, sum_g), hn::Set(d, static_cast<C>(columns)));
  const auto mean_gx = hn::Div(hn::SumOfLanes(d, sum_gx), hn::Set(d, static_cast<C>(columns)));
  for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
    auto g = hn::Mul(load(dy), gain_of(load));
    if constexpr (Centered) g = hn::Sub(g, mean_g);
    const auto gradient = hn::Mul(vrstd, hn::NegMulAdd(normalized_of(load(x)), mean_gx, g));
    store(p.add ? hn::Add(load(dx), gradient) : gradient, dx);
  });
}

template <bool Centered, class T>
HWY_INLINE void differentiate_row(const DifferentiateRow<T>& p) {
  using C = AccumT<T>;
  const C* weight = p.weight;
  if (weight == nullptr) {
    differentiate_row_with_gain<Centered>(p, [](auto) HWY_ATTR { return hn::Set(hn::ScalableTag<C>(), C(1)); });
  } else {
    differentiate_row_with_gain<Centered>(p, [weight](auto load) HWY_ATTR { return load(weight); });
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
