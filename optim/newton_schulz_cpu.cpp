// The products are batched GEMMs; the other two are one pass over their elements. Each element is computed
// independently, so the bits do not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/newton_schulz_cpu.cpp"
#include <hwy/foreach_target.h>

#include <cmath>

#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "optim/newton_schulz.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

using optim::NewtonSchulz;

// begin, end: rows, counted over all matrices.
void normalize_rows(const optim::NormalizeMatrices& p, int64_t begin, int64_t end) {
  const int64_t rows = p.x.shape[1], columns = p.x.shape[2];
  visit_accumulation(p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    const hn::ScalableTag<T> d;
    for (int64_t row = begin; row < end; ++row) {
      const double norm = std::sqrt(p.sums_of_squares.as<double>()[row / rows]);
      const double divisor = norm < NewtonSchulz::kLeastNorm ? NewtonSchulz::kLeastNorm : norm;  // a NaN stays one
      const auto factor = hn::Set(d, static_cast<T>(1 / divisor));
      T* const x = p.x.as<T>() + row * columns;
      for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR { store(hn::Mul(load(x), factor), x); });
    }
  });
}

void polynomial_rows(const optim::NewtonSchulzPolynomial& p, int64_t begin, int64_t end) {
  const int64_t n = p.square.shape[2];
  visit_accumulation(p.square.dtype, [&](auto zero) {
    using T = decltype(zero);
    const hn::ScalableTag<T> d;
    const auto b = hn::Set(d, static_cast<T>(NewtonSchulz::kB)), c = hn::Set(d, static_cast<T>(NewtonSchulz::kC));
    for (int64_t row = begin; row < end; ++row) {
      T* const square = p.square.as<T>() + row * n;
      const T* const gram = p.gram.as<T>() + row * n;
      for_each_vector(d, n, [&](int64_t, auto load, auto store) HWY_ATTR {
        store(hn::MulAdd(b, load(gram), hn::Mul(c, load(square))), square);
      });
      square[row % n] += static_cast<T>(NewtonSchulz::kA);
    }
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(normalize_rows);
HWY_EXPORT(polynomial_rows);

void matrix_products(Context& context, const optim::MatrixProducts& p) {
  visit_accumulation(p.c.dtype, [&](auto zero) {
    using T = decltype(zero);
    gemm(context, Gemm<T>{.m = p.c.shape[1],
                          .n = p.c.shape[2],
                          .k = p.a.shape[p.transpose_a ? 1 : 2],
                          .batches = p.c.shape[0],
                          .a = p.a.as<T>(),
                          .b = p.b.as<T>(),
                          .c = p.c.as<T>(),
                          .transpose_a = p.transpose_a,
                          .transpose_b = p.transpose_b});
  });
}

void normalize_matrices(Context&, const optim::NormalizeMatrices& p) {
  parallel_for(p.x.shape.rows(), ceil_divide(kElementwiseGrain, p.x.shape[2]), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(normalize_rows)(p, begin, end);
  });
}

void newton_schulz_polynomial(Context&, const optim::NewtonSchulzPolynomial& p) {
  parallel_for(p.square.shape.rows(), ceil_divide(kElementwiseGrain, p.square.shape[2]),
               [&](int64_t begin, int64_t end) {
                 HWY_DYNAMIC_DISPATCH(polynomial_rows)
                 (p, begin, end);
               });
}

}  // namespace heed::cpu
#endif
