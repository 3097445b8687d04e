// GEMM of the CUDA backend: cuBLASLt, f32 and bf16 with f32 accumulation.
//
// f32 is full f32 unless set_tf32(true): then the inputs are reduced to TF32 (10 fraction bits) and run on tensor
// cores, about eight times as fast. The algorithm is selected once per kind of GEMM and kept, so that reruns are
// bit-identical.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::cuda {

// C = op(A) op(B) + bias, or C += op(A) op(B); all matrices are row-major.
//   op(A) (m, k): A is (m, k), transposed (k, m)    op(B) (k, n): B is (k, n), transposed (n, k); both f32 or both bf16
//   C (m, n): dtype of A, or f32 for bf16 A    bias (n) f32, not with `add`; for a bf16 C it is rounded to bf16 first
//   bias_copy (n): the bias rounded to bf16, optional; without it, a bf16 C with a bias takes one more launch
//   lda, ldc: the leading dimensions, elements from one row of A or C to the next; 0: rows without padding. Padding is
//   never read; what is in it afterwards is not specified. ShapeError for padding with a bias, gelu or several batches.
// A, B and C may be `batches` matrices each, adjacent in memory, which are multiplied one by one; without a bias then.
// More than 65535 batches are several calls of the library.
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  ConstTensorRef a = {}, b = {};
  TensorRef c = {};
  int64_t lda = 0, ldc = 0;
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  ConstTensorRef bias = {}, bias_copy = {};
};

// Throws DTypeError, DeviceError, ShapeError. Dimensions may be 0, but a bias with k = 0 throws ShapeError, and so does
// a bias with several batches. Returns false if cuBLASLt has no algorithm with this bias; a separate kernel then
// wrote the bias to C before the GEMM.
bool gemm(Context& context, const Gemm& product);

// gemm(), and y = gelu(C) with the tanh approximation, in one kernel (cuBLASLt's GELU_AUX epilogues). Returns false,
// without having done anything, if that is not available; the alternative is gemm() and a gelu kernel. It supports
//   - bf16 in and out, without `add`: the library does not specify the accuracy of its gelu, and in f32 the error would
//     be visible.
//   - n a multiple of 8 and C 16-byte aligned: the library requires the former of the leading dimension of the matrix
//     that stores gelu's input, and guarantees nothing for other addresses.
//   - GPUs of compute capability 9.x and 10.x: on 8.x and 12.x the library runs a separate kernel after the GEMM, which
//     others measured to be slower than the alternative.
//   - GEMMs that the library has an algorithm for, queried once per kind.
// y is computed from the f32 sum, C is the same sum rounded. What y is for a NaN or Inf depends on the library.
bool gemm_gelu(Context& context, const Gemm& product, const TensorRef& y);

// C = bias in each row, or C + bias with `add`: the first half of a GEMM whose bias the library does not support.
void put_bias(Context& context, const Gemm& product);

// y[i] = x[i] rounded to bf16; used for the bias of a GEMM.
void round_to_bf16(Context& context, void* y, const float* x, int64_t n);

}  // namespace heed::cuda
