// Which kernels compute an attention on CUDA.
#pragma once

#include "autograd/ops/attention/attention.hpp"

namespace heed::cuda {

// generic: every problem, on the cores for f32. tensor_cores: bf16 with head sizes that are multiples of 8 up to 128,
// where every row of a head starts at a multiple of 16 bytes.
enum class AttentionPath { generic, tensor_cores };
constexpr int64_t kMostColumnsOnTensorCores = 128;
AttentionPath attention_path(const AttentionForward& p);
AttentionPath attention_path(const AttentionBackward& p);

// The launchers behind attention_forward and attention_backward, which have checked the problem: there is something to
// compute.
void generic_attention_forward(const AttentionForward& p);
void tensor_core_attention_forward(const AttentionForward& p);
// delta (B, H, Tq): rowsum(dy * y).
void generic_attention_backward(const AttentionBackward& p, const float* delta);
void tensor_core_attention_backward(const AttentionBackward& p, const float* delta);

// Calls f with the number of columns of a tile that a head fits into, as an integral constant. Throws ValueError.
template <class F>
void visit_columns(int64_t head_size, F&& f) {
  require<ValueError>(head_size <= 256,
                      "attention: the head size is {}, on cuda it may be at most 256 (model.num_heads)", head_size);
  if (head_size <= 32) return f(std::integral_constant<int, 32>());
  if (head_size <= 64) return f(std::integral_constant<int, 64>());
  if (head_size <= 96) return f(std::integral_constant<int, 96>());
  head_size <= 128 ? f(std::integral_constant<int, 128>()) : f(std::integral_constant<int, 256>());
}

}  // namespace heed::cuda
