// GEMM with few rows of A and a transposed B, as a linear layer in generation: C (m, n) = A (m, k) B^T, B (n, k). The
// time is that of reading B, which is read once and in place.
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// Whether few_rows_gemm() computes this GEMM: it was measured to be faster than the others for it.
bool suits_few_rows_gemm(const Gemm<float>& product);
bool suits_few_rows_gemm(const Gemm<double>& product);
bool suits_few_rows_gemm(const Gemm<Bf16>& product);

// As gemm(); the bits do not depend on the number of threads.
void few_rows_gemm(const Gemm<float>& product);
void few_rows_gemm(const Gemm<double>& product);
void few_rows_gemm(const Gemm<Bf16>& product);

}  // namespace heed::cpu
