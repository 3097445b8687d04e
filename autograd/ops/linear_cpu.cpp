// linear: three GEMMs; dbias is summed in chunks of rows whose number depends on the shape only.
//
// linear_gelu runs gelu as an epilogue of the GEMM: as soon as a part of u is complete (in heed's own GEMMs, while it
// is in cache), the epilogue writes y = gelu(u). In f32 and f64 it also overwrites u with the derivative gelu'(u), so
// backward needs no exponential; this saves 2 % of a training step of a small model. bf16 saves u, because gelu'(u)
// would have to be rounded to bf16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/linear_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/column_sum.hpp"
#include "autograd/cpu/gelu.hpp"
#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear.hpp"

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

// y = gelu(u), u = gelu'(u).
template <class T>
void gelu_and_derivative_of(T* HWY_RESTRICT y, T* HWY_RESTRICT u, int64_t count) {
  const hn::ScalableTag<T> d;
  for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR {
    const Gelu gelu(d, load(u));
    store(gelu.value(), y);
    store(gelu.derivative(d), u);
  });
}
void gelu_and_derivative_f32(float* y, float* u, int64_t count) { gelu_and_derivative_of(y, u, count); }
void gelu_and_derivative_f64(double* y, double* u, int64_t count) { gelu_and_derivative_of(y, u, count); }

// y = gelu(u); u is kept.
void gelu_bf16(Bf16* HWY_RESTRICT y, Bf16* HWY_RESTRICT u, int64_t count) {
  const hn::ScalableTag<float> d;
  for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR { store(Gelu(d, load(u)).value(), y); });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(add_rows);
HWY_EXPORT(gelu_and_derivative_f32);
HWY_EXPORT(gelu_and_derivative_f64);
HWY_EXPORT(gelu_bf16);

// The GEMM of the forward: y (rows, N) = x (rows, K) weight^T (K, N) + bias (N).
template <class T>
Gemm<T> linear_product(const LinearForward& p) {
  return {.m = p.x.shape.rows(),
          .n = p.weight.shape[0],
          .k = p.weight.shape[1],
          .a = p.x.as<T>(),
          .b = p.weight.as<T>(),
          .c = p.y.as<T>(),
          .transpose_b = true,
          .bias = p.bias.as<AccumT<T>>()};
}

template <class T>
void fused(Context& context, const LinearGeluForward& p, void (*gelu)(T* y, T* u, int64_t count)) {
  const int64_t outputs = p.weight.shape[0];
  const auto gelu_part = [&](const Part& part) {
    for (int64_t row = part.row; row < part.end_row; ++row) {
      const int64_t first = row * outputs + part.column;
      gelu(p.y.as<T>() + first, p.kept.as<T>() + first, part.end_column - part.column);
    }
  };
  gemm(context, linear_product<T>({.y = p.kept, .x = p.x, .weight = p.weight, .bias = p.bias}), gelu_part);
}

}  // namespace

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

void linear_gelu_forward(Context& context, const LinearGeluForward& p) {
  switch (p.x.dtype) {
    case DType::f32:
      return fused<float>(context, p, HWY_DYNAMIC_DISPATCH(gelu_and_derivative_f32));
    case DType::f64:
      return fused<double>(context, p, HWY_DYNAMIC_DISPATCH(gelu_and_derivative_f64));
    default:
      return fused<Bf16>(context, p, HWY_DYNAMIC_DISPATCH(gelu_bf16));
  }
}

void linear_gelu_du(Context& context, const LinearGeluDu& p) {
  if (is_accumulation_dtype(p.kept.dtype)) {
    multiply(context, {.y = {p.kept}, .a = p.dy, .b = p.kept});
  } else {
    gelu_backward(context, {.dx = {p.kept}, .dy = p.dy, .x = p.kept});
  }
}

}  // namespace heed::cpu
#endif
