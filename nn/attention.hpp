// Causal self-attention: QKV projection, fused attention, output projection.
//   x (B, T, C) -> (B, T, C)    qkv weight ((H + 2 Hkv) D, C), projection weight (C, H D), D = C / H
// MHA (Hkv = H), GQA (1 < Hkv < H) and MQA (Hkv = 1) differ only in the number of KV heads: Ainslie et al. 2023
// (arXiv 2305.13245).
#pragma once

#include "nn/forward_context.hpp"
#include "nn/gpt_config.hpp"
#include "nn/linear.hpp"

namespace heed::nn {

class Attention {
 public:
  Attention(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

 private:
  // The attention output (B, T, H D) before the output projection.
  Tensor mix(const Tensor& x, const ForwardContext& context) const;
  Tensor mix_with_cache(const Tensor& x, KvCache& cache) const;

  Linear qkv_, projection_;
  int64_t num_heads_, num_kv_heads_, head_size_, layer_;
  double dropout_;
};

}  // namespace heed::nn
