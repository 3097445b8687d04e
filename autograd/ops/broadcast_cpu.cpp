// One pass over memory each; threads take ranges of elements of y. A sum over adjacent elements has several partial
// sums (sum_of), the others add row after row: which range an element is in does not matter.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/broadcast_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/broadcast.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// Calls f(zero of x's type, zero of y's type) for two dtypes with the same accumulation dtype.
template <class F>
void visit_both(DType x, DType y, F&& f) {
  visit_floating(x, [&](auto zero) {
    using T = decltype(zero);
    using Other =
        std::conditional_t<std::is_same_v<T, Bf16>, float, std::conditional_t<std::is_same_v<T, float>, Bf16, T>>;
    x == y ? f(zero, zero) : f(zero, Other{});
  });
}

void expand_range(const ExpandDim& p, int64_t begin, int64_t end) {
  // y in runs that are one element of x repeated, or a row of x.
  const bool repeats = p.view.inner == 1;
  const int64_t length = repeats ? p.view.n : p.view.inner;
  visit_both(p.x.dtype, p.y.ref.dtype, [&](auto from, auto to) HWY_ATTR {
    using C = AccumT<decltype(from)>;
    const hn::ScalableTag<C> d;
    const auto factor = hn::Set(d, static_cast<C>(p.factor));
    for (int64_t at = begin; at < end;) {
      const int64_t run = at / length, first = at % length, count = std::min(length - first, end - at);
      const auto* x = p.x.as<decltype(from)>() + (repeats ? run : run / p.view.n * p.view.inner + first);
      auto* y = p.y.ref.as<decltype(to)>() + at;
      for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR {
        const auto value = hn::Mul(factor, repeats ? hn::Set(d, static_cast<C>(*x)) : load(x));
        store(p.y.add ? hn::Add(load(y), value) : value, y);
      });
      at += count;
    }
  });
}

// One sum of p.view.n adjacent elements per element of y.
template <class X, class Y>
void sum_rows(const SumDim& p, const X* x, Y* y, int64_t begin, int64_t end) {
  using C = AccumT<X>;
  const hn::ScalableTag<C> d;
  for (int64_t o = begin; o < end; ++o) {
    const X* row = x + o * p.view.n;
    const C sum = sum_of(d, p.view.n, [&](auto load) HWY_ATTR { return load(row); }) / static_cast<C>(p.divisor);
    y[o] = static_cast<Y>(p.y.add ? static_cast<C>(y[o]) + sum : sum);
  }
}

// A vector of sums at a time: rows are p.view.inner elements apart.
template <class X, class Y>
void sum_columns(const SumDim& p, const X* x, Y* y, int64_t begin, int64_t end) {
  const hn::ScalableTag<AccumT<X>> d;
  const auto divisor = hn::Set(d, static_cast<AccumT<X>>(p.divisor));
  const int64_t n = p.view.n, inner = p.view.inner;
  for (int64_t at = begin; at < end;) {
    const int64_t o = at / inner, first = at % inner, count = std::min(inner - first, end - at);
    const X* top = x + o * n * inner + first;
    for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t j = 0; j < n; ++j) sum = hn::Add(sum, load(top + j * inner));
      sum = hn::Div(sum, divisor);
      store(p.y.add ? hn::Add(load(y + at), sum) : sum, y + at);
    });
    at += count;
  }
}

void sum_range(const SumDim& p, int64_t begin, int64_t end) {
  visit_both(p.x.dtype, p.y.ref.dtype, [&](auto from, auto to) {
    const auto* x = p.x.as<decltype(from)>();
    auto* y = p.y.ref.as<decltype(to)>();
    p.view.inner == 1 ? sum_rows(p, x, y, begin, end) : sum_columns(p, x, y, begin, end);
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(expand_range);
HWY_EXPORT(sum_range);

void expand_dim(Context&, const ExpandDim& p) {
  if (!p.y) return;
  parallel_for(p.view.outer * p.view.n * p.view.inner, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(expand_range)(p, begin, end);
  });
}

void sum_dim(Context&, const SumDim& p) {
  if (!p.y) return;
  const int64_t grain = std::max<int64_t>(1, kElementwiseGrain / std::max<int64_t>(1, p.view.n));
  parallel_for(p.view.outer * p.view.inner, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sum_range)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
