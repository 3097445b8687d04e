// Matrix products of f32 and f64 by blocks held in registers, made for the shapes of small models: a factor that a
// core's second-level cache holds is read where it lies, without being packed first.
#pragma once

#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::cpu {

// Any shape. Each element is summed over ascending k, or in two halves of k that are added where the shape says so
// (block_gemm_plan.hpp): the bits do not depend on the threads. `done` as in gemm.hpp, or null.
void block_gemm(Context& context, const Gemm<float>& product, const PartDone* done = nullptr);
void block_gemm(Context& context, const Gemm<double>& product, const PartDone* done = nullptr);

// Whether block_gemm was measured faster than oneDNN for such a shape.
bool suits_block_gemm(const Gemm<float>& product);

}  // namespace heed::cpu
