// Matrix product of the CUDA backend: cuBLASLt, f32 and bf16 with sums in f32.
//
// f32 is exact f32 unless set_tf32(true): then the inputs are cut to 10 bits of fraction and run on tensor cores, some
// eight times as fast. The algorithm is chosen once per kind of product and kept, so that reruns are bit-equal.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::cuda {

// C = op(A) op(B) + bias, or C += op(A) op(B); all dense and row-major.
//   op(A) (m, k): A is (m, k), transposed (k, m)    op(B) (k, n): B is (k, n), transposed (n, k); both f32 or both bf16
//   C (m, n) as A, or f32 for bf16    bias (n) f32, not with `add`; for a bf16 C it is rounded to bf16 first
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  ConstTensorRef a = {}, b = {};
  TensorRef c = {};
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  ConstTensorRef bias = {};
};

// Throws DTypeError, DeviceError. Dimensions of 0 are allowed, but not a bias for k = 0 (ShapeError).
void gemm(Context& context, const Gemm& product);

// y[i] = x[i] rounded to bf16; part of a product with a bias.
void round_to_bf16(Context& context, void* y, const float* x, int64_t n);

}  // namespace heed::cuda
