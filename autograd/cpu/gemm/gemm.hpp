// Matrix product of the CPU backend: oneDNN for bf16 and f32, blocks of heed's own (block_gemm.hpp) for f64, for f32
// where they are faster, and for all where oneDNN is not built in. bf16 is multiplied and summed in f32 and rounded
// once, when it is stored.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::cpu {

// C = op(A) op(B) + bias, or C += …; all dense and row-major.
//   op(A) (m, k): A is (m, k), transposed (k, m)    op(B) (k, n): B is (k, n), transposed (n, k)
//   C (m, n)    bias (n), optional, f32 for bf16
template <class T, class Out = T>
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  const T* b = nullptr;
  Out* c = nullptr;
  bool transpose_a = false, transpose_b = false;
  bool add = false;
  const ComputeOf<T>* bias = nullptr;
};

// Rows [row, end_row) and columns [column, end_column) of C.
struct Part {
  int64_t row, end_row, column, end_column;
};
using PartDone = FunctionRef<void(const Part&)>;

void gemm(Context& context, const Gemm<float>& product);
void gemm(Context& context, const Gemm<double>& product);
void gemm(Context& context, const Gemm<Bf16>& product);
void gemm(Context& context, const Gemm<Bf16, float>& product);

// The product, and done(part) for parts that cover C, each when it is complete: by blocks it is still in a cache then.
// Parts come on any thread.
void gemm(Context& context, const Gemm<float>& product, const PartDone& done);
void gemm(Context& context, const Gemm<double>& product, const PartDone& done);

// Whether bf16 products run on instructions of the processor for them. Elsewhere they are widened to f32 first: the
// same numbers, but slower than f32.
bool has_bf16_products();
// That other way, on any processor.
void gemm_widened(Context& context, const Gemm<Bf16>& product);
void gemm_widened(Context& context, const Gemm<Bf16, float>& product);

}  // namespace heed::cpu
