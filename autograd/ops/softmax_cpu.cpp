// Threads process whole rows, which are independent. Forward reads a row three times, backward twice; all but the first
// time it is in a cache.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/softmax_cpu.cpp"
#include <hwy/foreach_target.h>

#include <cmath>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/softmax.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// Returns the sum of e^(x - max) over a row, and writes the terms to `terms` unless it is nullptr.
template <class T, class C>
C sum_of_exponentials(const T* x, int64_t columns, C max, C* terms) {
  const hn::ScalableTag<C> d;
  const auto vmax = hn::Set(d, max);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  for_each_vector(d, columns, [&](int64_t i, auto load, auto store) HWY_ATTR {
    auto term = Exp(d, hn::Sub(load(x), vmax));
    if (terms != nullptr) store(term, terms);
    if (i + lanes > columns) term = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(columns - i)), term);
    sum = hn::Add(sum, term);
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

template <class T>
void softmax_row(const SoftmaxForward& p, int64_t row) {
  using C = AccumT<T>;
  const hn::ScalableTag<C> d;
  const int64_t columns = p.x.shape.columns();
  const T* x = p.x.as<T>() + row * columns;
  T* y = p.y.as<T>() + row * columns;
  // The exponentials are kept in y. bf16 would round them, so there they are computed twice.
  C* terms = nullptr;
  if constexpr (std::is_same_v<T, C>) terms = p.log ? nullptr : y;
  const C max = max_of(d, columns, [&](auto load) HWY_ATTR { return load(x); });
  const C sum = sum_of_exponentials(x, columns, max, terms);
  const auto vmax = hn::Set(d, max), log_sum = hn::Set(d, std::log(sum)), factor = hn::Set(d, C(1) / sum);
  for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
    if (p.log) {
      store(hn::Sub(hn::Sub(load(x), vmax), log_sum), y);
    } else {
      store(hn::Mul(terms != nullptr ? load(terms) : Exp(d, hn::Sub(load(x), vmax)), factor), y);
    }
  });
}

template <class T>
void differentiate_row(const SoftmaxBackward& p, int64_t row) {
  const hn::ScalableTag<AccumT<T>> d;
  const int64_t columns = p.y.shape.columns();
  const T* y = p.y.as<T>() + row * columns;
  const T* dy = p.dy.as<T>() + row * columns;
  T* dx = p.dx.ref.as<T>() + row * columns;
  const auto write = [&](auto load, auto store, auto gradient)
                         HWY_ATTR { store(p.dx.add ? hn::Add(load(dx), gradient) : gradient, dx); };
  if (p.log) {
    const auto sum = hn::Set(d, sum_of(d, columns, [&](auto load) HWY_ATTR { return load(dy); }));
    for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
      write(load, store, hn::NegMulAdd(Exp(d, load(y)), sum, load(dy)));
    });
  } else {
    const auto sum = hn::Set(d, sum_of(d, columns, [&](auto load) HWY_ATTR { return hn::Mul(load(dy), load(y)); }));
    for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
      write(load, store, hn::Mul(load(y), hn::Sub(load(dy), sum)));
    });
  }
}

void softmax_rows(const SoftmaxForward& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) {
    for (int64_t row = begin; row < end; ++row) softmax_row<decltype(zero)>(p, row);
  });
}

void differentiate_rows(const SoftmaxBackward& p, int64_t begin, int64_t end) {
  visit_floating(p.y.dtype, [&](auto zero) {
    for (int64_t row = begin; row < end; ++row) differentiate_row<decltype(zero)>(p, row);
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(differentiate_rows);

template <class P>
void over_rows(const Shape& shape, const P& p, void (*rows)(const P&, int64_t, int64_t)) {
  if (shape.numel() == 0) return;
  parallel_for(shape.rows(), ceil_divide(kElementwiseGrain / 2, shape.columns()),
               [&](int64_t begin, int64_t end) { rows(p, begin, end); });
}

}  // namespace

void softmax_forward(Context&, const SoftmaxForward& p) { over_rows(p.x.shape, p, HWY_DYNAMIC_DISPATCH(softmax_rows)); }
void softmax_backward(Context&, const SoftmaxBackward& p) {
  if (p.dx) over_rows(p.y.shape, p, HWY_DYNAMIC_DISPATCH(differentiate_rows));
}

}  // namespace heed::cpu
#endif
