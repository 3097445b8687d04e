// Matrix products by oneDNN; for gemm.cpp only. m, n, k must be at least 1.
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// Whether oneDNN is built in; run_onednn() throws GraphError where it is not.
extern const bool kOneDnn;

void run_onednn(const Gemm<float>& product);
void run_onednn(const Gemm<Bf16>& product);
void run_onednn(const Gemm<Bf16, float>& product);

}  // namespace heed::cpu
