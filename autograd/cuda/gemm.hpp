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

// The same and y = gelu(C), tanh form, in one kernel (cuBLASLt's GELU_AUX epilogues). Returns false, with nothing done,
// where that is not to be had; gemm() and a pass over C are the other way. It is for
//   - bf16 in and out, without `add`: how exact the library's gelu is, it does not say. In f32 that would show.
//   - n a multiple of 8 and C at a multiple of 16 bytes: the library demands the first of the leading dimension of the
//     matrix that keeps gelu's input, and promises nothing for other addresses.
//   - cards of compute capability 9.x and 10.x: on 8.x and 12.x others measured the library, which puts a kernel of its
//     own behind the product, to be slower than the other way.
//   - products that the library finds an algorithm for, asked once for each kind.
// y is made from the sum in f32, C from the same sum rounded. What a NaN or Inf becomes in y is up to the library.
bool gemm_gelu(Context& context, const Gemm& product, const TensorRef& y);

// C = bias in each row, or C + bias with `add`: the first half of a product with a bias that the library does not take.
void put_bias(Context& context, const Gemm& product);

// y[i] = x[i] rounded to bf16; part of a product with a bias.
void round_to_bf16(Context& context, void* y, const float* x, int64_t n);

}  // namespace heed::cuda
