// Three GEMMs; dbias is summed in chunks of rows whose number depends on the shape only.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/linear_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/column_sum.hpp"
#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/linear_product.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// sum += row for each row of [begin, end).
template <class T>
void add_rows_of(const ConstTensorRef& x, int64_t begin, int64_t end, AccumT<T>* sum) {
  const hn::ScalableTag<AccumT<T>> d;
  const int64_t columns = x.shape.columns();
  for (int64_t row = begin; row < end; ++row) {
    const T* values = x.as<T>() + row * columns;
    for_each_vector(d, columns,
                    [&](int64_t, auto load, auto store) HWY_ATTR { store(hn::Add(load(sum), load(values)), sum); });
  }
}

void add_rows(const ConstTensorRef& x, int64_t begin, int64_t end, void* sum) {
  visit_floating(x.dtype, [&](auto zero) {
    add_rows_of<decltype(zero)>(x, begin, end, static_cast<AccumT<decltype(zero)>*>(sum));
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(add_rows);

void linear_forward(Context& context, const LinearForward& p) {
  visit_floating(p.x.dtype, [&](auto zero) { gemm(context, linear_product<decltype(zero)>(p)); });
}

void linear_backward(Context& context, const LinearBackward& p) {
  const int64_t rows = p.x.shape.rows(), outputs = p.weight.shape[0], inputs = p.weight.shape[1];
  visit_floating(p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    if (p.dx) {
      gemm(context, Gemm<T>{.m = rows,
                            .n = inputs,
                            .k = outputs,
                            .a = p.dy.as<T>(),
                            .b = p.weight.as<T>(),
                            .c = p.dx.ref.as<T>(),
                            .add = p.dx.add});
    }
    if (p.dweight) {
      using Sum = AccumT<T>;
      gemm(context, Gemm<T, Sum>{.m = outputs,
                                 .n = inputs,
                                 .k = rows,
                                 .a = p.dy.as<T>(),
                                 .b = p.x.as<T>(),
                                 .c = p.dweight.ref.as<Sum>(),
                                 .transpose_a = true,
                                 .add = p.dweight.add});
    }
    if (p.dbias) {
      ColumnSums<AccumT<T>> sums(context, rows, outputs, 1);
      parallel_tasks(sums.chunks(), sums.chunks(), [&](int64_t chunk, int64_t) {
        HWY_DYNAMIC_DISPATCH(add_rows)(p.dy, sums.first_row(chunk), sums.first_row(chunk + 1), sums.partial(chunk, 0));
      });
      sums.finish(0, p.dbias);
    }
  });
}

}  // namespace heed::cpu
#endif
