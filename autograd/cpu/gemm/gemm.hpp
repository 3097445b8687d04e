// GEMM of the CPU backend. f64 uses heed's blocked GEMM (block_gemm.hpp). f32 uses it where it is faster and oneDNN
// elsewhere. On a CPU with AVX512_BF16, bf16 uses pair_gemm() for the shapes of a linear layer and oneDNN for the
// others; for the rest it widens the operands to f32. A build without oneDNN uses the blocked GEMM for all of f32.
// The accumulation dtype of bf16 is f32; the result is rounded once, when it is stored.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {

// C = op(A) op(B) + bias, or C += … if `add`; all matrices are dense and row-major.
//   op(A) (m, k): A is (m, k), or (k, m) if transposed    op(B) (k, n): B is (k, n), or (n, k) if transposed
//   C (m, n)    bias (n), optional, f32 for bf16
// A, B and C may be `batches` matrices each, adjacent in memory, which are multiplied one by one; bias is for all.
template <class T, class Out = T>
struct Gemm {
  int64_t m = 0, n = 0, k = 0, batches = 1;
  const T* a = nullptr;
  const T* b = nullptr;
  Out* c = nullptr;
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  const AccumT<T>* bias = nullptr;
};

// Rows [row, end_row) and columns [column, end_column) of C.
struct Part {
  int64_t row, end_row, column, end_column;
};
using Epilogue = FunctionRef<void(const Part&)>;

void gemm(Context& context, const Gemm<float>& product);
void gemm(Context& context, const Gemm<double>& product);
void gemm(Context& context, const Gemm<Bf16>& product);
void gemm(Context& context, const Gemm<Bf16, float>& product);

// One GEMM (batches = 1) with an epilogue callback: calls epilogue(part) once for each complete part of C, from any
// thread. The parts cover C. With the blocked GEMM, the part is still in a cache then.
void gemm(Context& context, const Gemm<float>& product, const Epilogue& epilogue);
void gemm(Context& context, const Gemm<double>& product, const Epilogue& epilogue);
void gemm(Context& context, const Gemm<Bf16>& product, const Epilogue& epilogue);

// Whether the CPU has bf16 instructions (AVX512_BF16).
bool has_bf16_dot();
// Whether oneDNN computes bf16 GEMMs with these instructions. Otherwise gemm() widens the operands to f32, unless
// pair_gemm() computes the product: the accuracy is the same, but it is slower than an f32 GEMM.
bool has_bf16_products();
// Always widens to f32, on any CPU.
void gemm_widened(Context& context, const Gemm<Bf16>& product);
void gemm_widened(Context& context, const Gemm<Bf16, float>& product);

}  // namespace heed::cpu
