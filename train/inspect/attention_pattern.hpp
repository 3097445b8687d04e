// The attention pattern of a layer: its attention probabilities, which attention() itself never stores.
//
//   qkv (B, T, (H + 2 Hkv) D), any floating-point dtype and device -> pattern (B, H, T, T), f32 on the CPU
//   pattern[b, h, i, j] = softmax of scale q_i · k_j over the keys j that query i attends to, for others exactly 0
// qkv and options are those of attention_packed() (autograd/ops/attention/attention.hpp), whose probabilities these
// are, without dropout. The scores are computed in f32, softmax in f64: each row sums to 1 within 1e-6.
#pragma once

#include "autograd/ops/attention/attention.hpp"
#include "autograd/tensor.hpp"

namespace heed::train {

// Of the options it reads the heads, scale, causal, window, alibi and documents. Throws ShapeError unless the last
// dimension of qkv is a multiple of num_heads + 2 num_kv_heads.
Tensor attention_pattern(const Tensor& qkv, const AttentionOptions& options);

}  // namespace heed::train
