// Threads process whole rows, which are independent. Forward reads a row twice (the second time from cache); backward
// reads it once and writes its gradient.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/cross_entropy_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autograd/core/token_range.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/cross_entropy.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// The loss of one row, in f64 so that a large difference of logits loses no digits.
template <class T>
double row_loss(const CrossEntropyRows& p, int64_t row) {
  using C = AccumT<T>;
  const hn::ScalableTag<C> d;
  const T* x = p.logits.as<T>() + row * p.logits.shape.columns();
  const C target = x[p.targets.as<int32_t>()[row]];
  const C max = max_of(d, p.options.vocab, [&](auto load) HWY_ATTR { return load(x); });
  const auto vmax = hn::Set(d, max);
  const C sum = sum_of(d, p.options.vocab, [&](auto load) HWY_ATTR { return Exp(d, hn::Sub(load(x), vmax)); });
  p.row_max.as<C>()[row] = max;
  p.row_sum.as<C>()[row] = sum;
  return (static_cast<double>(max) - static_cast<double>(target)) + static_cast<double>(std::log(sum));
}

void row_losses(const CrossEntropyRows& p, int64_t begin, int64_t end) {
  visit_floating(p.logits.dtype, [&](auto zero) {
    const int32_t* targets = p.targets.as<int32_t>();
    double* const losses = p.losses.as<double>();
    for (int64_t row = begin; row < end; ++row) {
      losses[row] = targets[row] == p.options.ignore_index ? 0 : row_loss<decltype(zero)>(p, row);
    }
  });
}

template <class T>
void differentiate_row(const CrossEntropyBackward& p, int64_t row, AccumT<T> gradient) {
  using C = AccumT<T>;
  const hn::ScalableTag<C> d;
  const int64_t columns = p.logits.shape.columns();
  const T* x = p.logits.as<T>() + row * columns;
  const auto vmax = hn::Set(d, p.row_max.as<C>()[row]);
  const auto per_exponential = hn::Set(d, gradient / p.row_sum.as<C>()[row]);
  T* dx = p.dlogits.ref.as<T>() + row * columns;
  const int32_t target = p.targets.as<int32_t>()[row];
  // The element of the target is computed separately, so that it is rounded to the dtype only once.
  const C of_target =
      (p.dlogits.add ? static_cast<C>(dx[target]) : C(0)) +
      (hn::GetLane(Exp(d, hn::Sub(hn::Set(d, x[target]), vmax))) * hn::GetLane(per_exponential) - gradient);
  for_each_vector(d, p.options.vocab, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto v = hn::Mul(Exp(d, hn::Sub(load(x), vmax)), per_exponential);
    store(p.dlogits.add ? hn::Add(load(dx), v) : v, dx);
  });
  dx[target] = static_cast<T>(of_target);
  if (!p.dlogits.add) std::fill(dx + p.options.vocab, dx + columns, T(0));
}

void differentiate(const CrossEntropyBackward& p, int64_t begin, int64_t end) {
  visit_floating(p.logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t columns = p.logits.shape.columns();
    using C = AccumT<T>;
    const C gradient = static_cast<C>(static_cast<double>(*p.dloss.as<C>()) * *p.weight.as<double>());
    for (int64_t row = begin; row < end; ++row) {
      if (p.targets.as<int32_t>()[row] != p.options.ignore_index) {
        differentiate_row<T>(p, row, gradient);
      } else if (!p.dlogits.add) {
        std::fill_n(p.dlogits.ref.as<T>() + row * columns, columns, T(0));
      }
    }
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(row_losses);
HWY_EXPORT(differentiate);

int64_t grain(const ConstTensorRef& logits) { return ceil_divide(kElementwiseGrain / 2, logits.shape.columns()); }

}  // namespace

void cross_entropy_weight(Context&, const CrossEntropyWeight& p) {
  require_tokens(p.targets, p.token_range());
  const int64_t rows = p.targets.shape.numel();
  const int32_t* targets = p.targets.as<int32_t>();
  const int64_t counted = rows - std::count(targets, targets + rows, p.options.ignore_index);
  const double given = p.options.denominator.get();
  const double denominator = given > 0 ? given : static_cast<double>(counted);
  *p.weight.as<double>() = counted > 0 ? 1 / denominator : 0;
}

void cross_entropy_rows(Context&, const CrossEntropyRows& p) {
  parallel_for(p.targets.shape.numel(), grain(p.logits), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(row_losses)(p, begin, end);
  });
}

void cross_entropy_sum(Context&, const CrossEntropySum& p) {
  const double* losses = p.losses.as<double>();
  const double total = std::accumulate(losses, losses + p.losses.shape.numel(), 0.0);
  visit_accumulation(p.loss.dtype, [&](auto zero) {
    using T = decltype(zero);
    *p.loss.as<T>() = static_cast<T>(total * *p.weight.as<double>());
  });
}

void cross_entropy_backward(Context&, const CrossEntropyBackward& p) {
  if (!p.dlogits) return;
  parallel_for(p.targets.shape.numel(), grain(p.logits), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(differentiate)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
