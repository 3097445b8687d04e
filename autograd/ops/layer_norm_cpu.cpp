// Threads process whole rows, which are independent. dweight and dbias are column sums: chunks of rows, whose number
// depends on the shape only, are summed separately and the partial sums are added in order, so the bits do not depend
// on the threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/layer_norm_cpu.cpp"
#include <hwy/foreach_target.h>

#include <cmath>

#include "autograd/cpu/column_sum.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/layer_norm.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class T>
void normalize_rows(const LayerNormForward& p, int64_t begin, int64_t end) {
  using C = AccumT<T>;
  const hn::ScalableTag<C> d;
  const int64_t columns = p.x.shape.columns();
  const C* weight = p.weight.as<C>();
  const C* bias = p.bias.as<C>();
  for (int64_t row = begin; row < end; ++row) {
    const T* x = p.x.as<T>() + row * columns;
    T* y = p.y.as<T>() + row * columns;
    const C mean = sum_of(d, columns, [&](auto load) HWY_ATTR { return load(x); }) / static_cast<C>(columns);
    const auto vmean = hn::Set(d, mean);
    const C squares = sum_of(d, columns, [&](auto load) HWY_ATTR {
      const auto centered = hn::Sub(load(x), vmean);
      return hn::Mul(centered, centered);
    });
    const C variance = squares / static_cast<C>(columns);
    const C rstd = C(1) / std::sqrt(variance + static_cast<C>(p.eps));
    const auto vrstd = hn::Set(d, rstd);
    for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
      const auto normalized = hn::Mul(hn::Sub(load(x), vmean), vrstd);
      store(bias == nullptr ? hn::Mul(normalized, load(weight)) : hn::MulAdd(normalized, load(weight), load(bias)), y);
    });
    p.mean.as<C>()[row] = mean;
    p.rstd.as<C>()[row] = rstd;
  }
}

template <class T>
void differentiate_row(const LayerNormBackward& p, int64_t row, AccumT<T>* dweight, AccumT<T>* dbias) {
  using C = AccumT<T>;
  const hn::ScalableTag<C> d;
  const int64_t columns = p.x.shape.columns();
  const T* x = p.x.as<T>() + row * columns;
  const T* dy = p.dy.as<T>() + row * columns;
  const C* weight = p.weight.as<C>();
  const C rstd = p.rstd.as<C>()[row];
  const auto vmean = hn::Set(d, p.mean.as<C>()[row]), vrstd = hn::Set(d, rstd);
  auto sum_g = hn::Zero(d), sum_gx = hn::Zero(d);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for_each_vector(d, columns, [&](int64_t i, auto load, auto store) HWY_ATTR {
    const auto gradient = load(dy);
    auto normalized = hn::Mul(hn::Sub(load(x), vmean), vrstd);
    // Lanes past the end of the row hold (0 - mean) * rstd, which may be Inf, and 0 * Inf would make the sum NaN.
    if (i + lanes > columns) {
      normalized = hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(columns - i)), normalized);
    }
    const auto g = hn::Mul(gradient, load(weight));
    sum_g = hn::Add(sum_g, g);
    sum_gx = hn::MulAdd(g, normalized, sum_gx);
    if (dweight != nullptr) store(hn::MulAdd(gradient, normalized, load(dweight)), dweight);
    if (dbias != nullptr) store(hn::Add(gradient, load(dbias)), dbias);
  });
  if (!p.dx) return;
  T* dx = p.dx.ref.as<T>() + row * columns;
  const auto mean_g = hn::Div(hn::SumOfLanes(d, sum_g), hn::Set(d, static_cast<C>(columns)));
  const auto mean_gx = hn::Div(hn::SumOfLanes(d, sum_gx), hn::Set(d, static_cast<C>(columns)));
  for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto normalized = hn::Mul(hn::Sub(load(x), vmean), vrstd);
    const auto g = hn::Mul(load(dy), load(weight));
    const auto gradient = hn::Mul(vrstd, hn::NegMulAdd(normalized, mean_gx, hn::Sub(g, mean_g)));
    store(p.dx.add ? hn::Add(load(dx), gradient) : gradient, dx);
  });
}

void normalize(const LayerNormForward& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) { normalize_rows<decltype(zero)>(p, begin, end); });
}

// dweight, dbias: partial sums in the dtype of weight, or nullptr.
void differentiate(const LayerNormBackward& p, int64_t begin, int64_t end, void* dweight, void* dbias) {
  visit_floating(p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = begin; row < end; ++row) {
      differentiate_row<T>(p, row, static_cast<AccumT<T>*>(dweight), static_cast<AccumT<T>*>(dbias));
    }
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(normalize);
HWY_EXPORT(differentiate);

void layer_norm_forward(Context&, const LayerNormForward& p) {
  parallel_for(p.x.shape.rows(), ceil_divide(kElementwiseGrain / 2, p.x.shape.columns()),
               [&](int64_t begin, int64_t end) {
                 HWY_DYNAMIC_DISPATCH(normalize)
                 (p, begin, end);
               });
}

void layer_norm_backward(Context& context, const LayerNormBackward& p) {
  visit_accumulation(accumulation_dtype(p.x.dtype), [&](auto zero) {
    ColumnSums<decltype(zero)> sums(context, p.x.shape.rows(), p.x.shape.columns(), 2);
    parallel_tasks(sums.chunks(), sums.chunks(), [&](int64_t chunk, int64_t) {
      HWY_DYNAMIC_DISPATCH(differentiate)
      (p, sums.first_row(chunk), sums.first_row(chunk + 1), p.dweight ? sums.partial(chunk, 0) : nullptr,
       p.dbias ? sums.partial(chunk, 1) : nullptr);
    });
    if (p.dweight) sums.finish(0, p.dweight);
    if (p.dbias) sums.finish(1, p.dbias);
  });
}

}  // namespace heed::cpu
#endif
