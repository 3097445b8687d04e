// Blocked GEMM for f32 and f64 with register tiles, designed for the shapes of small models: it does not pack operands
// that fit in the L2 cache of a core, but reads them in place.
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// Accepts any shape. Each element accumulates over ascending k. For some shapes, and only without `done`, k is split
// into two halves whose sums are added (split-K, use_split_k() in block_gemm_plan.hpp). The bits do not depend on the
// number of threads. `done`: epilogue callback as in gemm.hpp, or null.
void block_gemm(Context& context, const Gemm<float>& product, const Epilogue* done = nullptr);
void block_gemm(Context& context, const Gemm<double>& product, const Epilogue* done = nullptr);

// Returns whether block_gemm() was measured to be faster than oneDNN for this shape.
bool suits_block_gemm(const Gemm<float>& product);

}  // namespace heed::cpu
