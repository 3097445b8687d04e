// Selects the CUDA kernels of an attention.
#pragma once

#include "autograd/ops/attention/attention.hpp"

namespace heed::cuda {

// generic: every problem, in f32 on CUDA cores (SIMT). tensor_cores: mma, for bf16 with head sizes that are multiples
// of 8 up to 128, where every row of a head starts at a multiple of 16 bytes.
enum class AttentionPath { generic, tensor_cores };
constexpr int64_t kMostColumnsOnTensorCores = 128;
AttentionPath attention_path(const AttentionForward& p);
AttentionPath attention_path(const AttentionBackward& p);

// Launchers called by attention_forward and attention_backward, which have checked that there is something to compute.
void generic_attention_forward(const AttentionForward& p);
void tensor_core_attention_forward(const AttentionForward& p);
// delta (B, H, Tq): rowsum(dy * y) of each head.
void generic_attention_backward(const AttentionBackward& p, const float* delta);
void tensor_core_attention_backward(const AttentionBackward& p, const float* delta);

// Calls f with head_size rounded up to a number of tile columns (32, 64, 96, 128 or 256), as an integral constant.
// Throws ValueError for head_size > 256.
template <class F>
void visit_columns(int64_t head_size, F&& f) {
  require<ValueError>(head_size <= 256, "attention: the head size is {}, on cuda it may be at most 256", head_size);
  if (head_size <= 32) return f(std::integral_constant<int, 32>());
  if (head_size <= 64) return f(std::integral_constant<int, 64>());
  if (head_size <= 96) return f(std::integral_constant<int, 96>());
  head_size <= 128 ? f(std::integral_constant<int, 128>()) : f(std::integral_constant<int, 256>());
}

}  // namespace heed::cuda
