// Threads process whole rows, which are independent. dweight and dbias are column sums: chunks of rows, whose number
// depends on the shape only, are summed separately and the partial sums are added in order, so the bits do not depend
// on the threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/layer_norm_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/column_sum.hpp"
#include "autograd/cpu/norm_row.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/layer_norm.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class T>
void normalize_rows(const LayerNormForward& p, int64_t begin, int64_t end) {
  using C = AccumT<T>;
  const int64_t columns = p.x.shape.columns();
  const T* x = p.x.as<T>();
  T* y = p.y.as<T>();
  C *mean = p.mean.as<C>(), *rstd = p.rstd.as<C>();
  const C *weight = p.weight.as<C>(), *bias = p.bias.as<C>();
  for (int64_t row = begin; row < end; ++row) {
    normalize_row<true, T>({.y = y + row * columns,
                            .mean = mean + row,
                            .rstd = rstd + row,
                            .x = x + row * columns,
                            .weight = weight,
                            .bias = bias,
                            .eps = static_cast<C>(p.eps),
                            .columns = columns});
  }
}

template <class T>
void differentiate_rows(const LayerNormBackward& p, int64_t begin, int64_t end, AccumT<T>* dweight, AccumT<T>* dbias) {
  using C = AccumT<T>;
  const int64_t columns = p.x.shape.columns();
  const T *x = p.x.as<T>(), *dy = p.dy.as<T>();
  T* dx = p.dx.ref.as<T>();
  const C *weight = p.weight.as<C>(), *mean = p.mean.as<C>(), *rstd = p.rstd.as<C>();
  for (int64_t row = begin; row < end; ++row) {
    differentiate_row<true, T>({.dx = dx == nullptr ? nullptr : dx + row * columns,
                                .add = p.dx.add,
                                .dweight = dweight,
                                .dbias = dbias,
                                .dy = dy + row * columns,
                                .x = x + row * columns,
                                .weight = weight,
                                .mean = mean[row],
                                .rstd = rstd[row],
                                .columns = columns});
  }
}

void normalize(const LayerNormForward& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) { normalize_rows<decltype(zero)>(p, begin, end); });
}

// dweight, dbias: partial sums in the dtype of weight, or nullptr.
void differentiate(const LayerNormBackward& p, int64_t begin, int64_t end, void* dweight, void* dbias) {
  visit_floating(p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    differentiate_rows<T>(p, begin, end, static_cast<AccumT<T>*>(dweight), static_cast<AccumT<T>*>(dbias));
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
