// Matrix product of the CPU backend: oneDNN for f32, plain loops for f64 (and for f32 where oneDNN is not built in).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::cpu {

// C = op(A) op(B) + bias, or C += …; all dense and row-major, one dtype.
//   op(A) (m, k): A is (m, k), transposed (k, m)    op(B) (k, n): B is (k, n), transposed (n, k)
//   C (m, n)    bias (n), optional
template <class T>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  const T* bias = nullptr;
};

void gemm(Context& context, const Gemm<float>& product);
void gemm(Context& context, const Gemm<double>& product);

}  // namespace heed::cpu
