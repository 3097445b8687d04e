// Threads process whole rows, which are independent. dweight is a column sum: chunks of rows, whose number depends on
// the shape only, are summed separately and the partial sums are added in order, so the bits do not depend on the
// threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/rms_norm_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/column_sum.hpp"
#include "autograd/cpu/norm_row.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/rms_norm.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

void normalize(const RmsNormForward& p, int64_t begin, int64_t end) {
  visit_floating(p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = AccumT<T>;
    const int64_t columns = p.x.shape.columns();
    const T* x = p.x.as<T>();
    T* y = p.y.as<T>();
    C* rstd = p.rstd.as<C>();
    const C* weight = p.weight.as<C>();
    for (int64_t row = begin; row < end; ++row) {
      normalize_row<false, T>({.y = y + row * columns,
                               .mean = nullptr,
                               .rstd = rstd + row,
                               .x = x + row * columns,
                               .weight = weight,
                               .bias = nullptr,
                               .eps = static_cast<C>(p.eps),
                               .columns = columns});
    }
  });
}

// dweight: a partial sum in the dtype of weight, or nullptr.
void differentiate(const RmsNormBackward& p, int64_t begin, int64_t end, void* dweight) {
  visit_floating(p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = AccumT<T>;
    const int64_t columns = p.x.shape.columns();
    const T *x = p.x.as<T>(), *dy = p.dy.as<T>();
    T* dx = p.dx.ref.as<T>();
    const C *weight = p.weight.as<C>(), *rstd = p.rstd.as<C>();
    for (int64_t row = begin; row < end; ++row) {
      differentiate_row<false, T>({.dx = dx == nullptr ? nullptr : dx + row * columns,
                                   .add = p.dx.add,
                                   .dweight = static_cast<C*>(dweight),
                                   .dbias = nullptr,
                                   .dy = dy + row * columns,
                                   .x = x + row * columns,
                                   .weight = weight,
                                   .mean = 0,
                                   .rstd = rstd[row],
                                   .columns = columns});
    }
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(normalize);
HWY_EXPORT(differentiate);

void rms_norm_forward(Context&, const RmsNormForward& p) {
  parallel_for(p.x.shape.rows(), ceil_divide(kElementwiseGrain / 2, p.x.shape.columns()),
               [&](int64_t begin, int64_t end) {
                 HWY_DYNAMIC_DISPATCH(normalize)
                 (p, begin, end);
               });
}

void rms_norm_backward(Context& context, const RmsNormBackward& p) {
  visit_accumulation(accumulation_dtype(p.x.dtype), [&](auto zero) {
    ColumnSums<decltype(zero)> sums(context, p.x.shape.rows(), p.x.shape.columns(), 1);
    parallel_tasks(sums.chunks(), sums.chunks(), [&](int64_t chunk, int64_t) {
      HWY_DYNAMIC_DISPATCH(differentiate)
      (p, sums.first_row(chunk), sums.first_row(chunk + 1), p.dweight ? sums.partial(chunk, 0) : nullptr);
    });
    if (p.dweight) sums.finish(0, p.dweight);
  });
}

}  // namespace heed::cpu
#endif
