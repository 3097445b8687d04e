// In f32 and f64, gelu is an epilogue of the GEMM: as soon as a part of u is complete (in a blocked GEMM, while it is
// in cache), y = gelu(u) is written and u is overwritten with the derivative gelu'(u), so backward needs no
// exponential. Saves 2 % of a training step of a small model. bf16 uses two passes and saves u, because gelu'(u) would
// have to be rounded to bf16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/linear_gelu_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/gelu.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear_gelu.hpp"
#include "autograd/ops/linear_product.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// y = gelu(u), u = gelu'(u).
template <class T>
void gelu_and_slope_of(T* HWY_RESTRICT y, T* HWY_RESTRICT u, int64_t count) {
  const hn::ScalableTag<T> d;
  for_each_vector(d, count, [&](int64_t, auto load, auto store) HWY_ATTR {
    const Gelu gelu(d, load(u));
    store(gelu.value(), y);
    store(gelu.slope(d), u);
  });
}
void gelu_and_slope_f32(float* y, float* u, int64_t count) { gelu_and_slope_of(y, u, count); }
void gelu_and_slope_f64(double* y, double* u, int64_t count) { gelu_and_slope_of(y, u, count); }

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(gelu_and_slope_f32);
HWY_EXPORT(gelu_and_slope_f64);

template <class T>
void fused(Context& context, const LinearGeluForward& p, void (*gelu_and_derivative)(T*, T*, int64_t)) {
  const int64_t outputs = p.weight.shape[0];
  const auto gelu_part = [&](const Part& part) {
    for (int64_t row = part.row; row < part.end_row; ++row) {
      const int64_t first = row * outputs + part.column;
      gelu_and_derivative(p.y.as<T>() + first, p.kept.as<T>() + first, part.end_column - part.column);
    }
  };
  gemm(context, linear_product<T>({.y = p.kept, .x = p.x, .weight = p.weight, .bias = p.bias}), gelu_part);
}

}  // namespace

void linear_gelu_forward(Context& context, const LinearGeluForward& p) {
  switch (p.x.dtype) {
    case DType::f32:
      return fused<float>(context, p, HWY_DYNAMIC_DISPATCH(gelu_and_slope_f32));
    case DType::f64:
      return fused<double>(context, p, HWY_DYNAMIC_DISPATCH(gelu_and_slope_f64));
    default:
      linear_forward(context, {.y = p.kept, .x = p.x, .weight = p.weight, .bias = p.bias});
      gelu_forward(context, {.y = p.y, .x = p.kept});
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
