// GEMM through oneDNN, for gemm.cpp only. m, n, k and batches must be at least 1.
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// Whether oneDNN is part of the build. Otherwise run_onednn() throws GraphError. It throws MemoryError if oneDNN runs
// out of memory.
extern const bool kOneDnn;

void run_onednn(const Gemm<float>& product);
void run_onednn(const Gemm<Bf16>& product);
void run_onednn(const Gemm<Bf16, float>& product);

}  // namespace heed::cpu
