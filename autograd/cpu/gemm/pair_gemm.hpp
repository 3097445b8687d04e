// bf16 GEMM with AVX512_BF16 for the products of a linear layer: y = x W^T and dx = dy W, which read x and dy in place,
// and dW = dy^T x. An operand consists of pairs of bf16 that are adjacent along k (simd.hpp). Sums are f32; C is
// rounded once. Subnormal numbers may count as 0.
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// Whether pair_gemm() supports this GEMM on this CPU. For these shapes it was measured to be faster than oneDNN.
bool suits_pair_gemm(const Gemm<Bf16>& product);
bool suits_pair_gemm(const Gemm<Bf16, float>& product);

// Like gemm(). The bits do not depend on the number of threads. `epilogue`: see gemm.hpp, or nullptr.
void pair_gemm(Context& context, const Gemm<Bf16>& product, const Epilogue* epilogue = nullptr);
void pair_gemm(Context& context, const Gemm<Bf16, float>& product);

}  // namespace heed::cpu
