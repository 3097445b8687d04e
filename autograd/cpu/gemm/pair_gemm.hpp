// GEMM of bf16 by the bf16 instructions of AVX-512, for the products of a linear layer: y = x W^T and dx = dy W with
// x and dy in place, and dW = dy^T x. The operands are pairs of bf16 (simd.hpp), adjacent along k. Everything is
// accumulated in f32; C is rounded once.
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// Whether pair_gemm() computes this GEMM on this processor: it was measured to be faster than oneDNN for it.
bool suits_pair_gemm(const Gemm<Bf16>& product);
bool suits_pair_gemm(const Gemm<Bf16, float>& product);

// As gemm(); the bits do not depend on the number of threads. `epilogue`: as in gemm.hpp, or null.
void pair_gemm(Context& context, const Gemm<Bf16>& product, const Epilogue* epilogue = nullptr);
void pair_gemm(Context& context, const Gemm<Bf16, float>& product);

}  // namespace heed::cpu
