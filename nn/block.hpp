// The Transformer block and its two branches, attention and feed-forward.
#pragma once

#include <optional>

#include "nn/forward_context.hpp"
#include "nn/gpt_config.hpp"
#include "nn/layers.hpp"

namespace heed::nn {

// Causal self-attention: QKV projection, with qk_norm RMSNorm of each query and key head, fused attention, output
// projection.
//   x (B, T, C) -> (B, T, C)    qkv weight ((H + 2 Hkv) D, C), projection weight (C, H D), D = C / H
//   gains of qk_norm (D): one for all query heads, one for all key heads
// MHA (Hkv = H), GQA (1 < Hkv < H) and MQA (Hkv = 1) differ only in the number of KV heads: Ainslie et al. 2023
// (arXiv 2305.13245).
class Attention {
 public:
  Attention(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

 private:
  // The attention of this layer, but for what only a whole sequence has: dropout and documents.
  AttentionOptions options() const;
  // The attention output (B, T, H D) before the output projection.
  Tensor mix(const Tensor& x, const ForwardContext& context) const;
  Tensor mix_with_cache(const Tensor& x, const ForwardContext& context) const;
  // The first `rotated` of `heads` heads of x, with rotary position embedding; x itself without.
  Tensor rotate(const Tensor& x, int64_t heads, int64_t rotated, const ForwardContext& context) const;
  // The norm of qk_norm on heads (…, n D) without other columns; no gradient reaches them: not for training. The heads
  // themselves without qk_norm.
  Tensor normalize_heads(const Tensor& heads, const Parameter& gain) const;

  Linear qkv_, projection_;
  Parameter q_norm_, k_norm_;  // gains; absent without qk_norm or without norm_gain
  bool qk_norm_;
  double norm_eps_;
  int64_t num_heads_, num_kv_heads_, head_size_, layer_, window_;
  bool rope_, alibi_;
  double scale_;  // of the scores
  double dropout_;
};

// y = W2 f(W1 x + b1) + b2, f the activation.    x (B, T, C), f(…) (B, T, d_ff), y (B, T, C)
// W1 has d_ff outputs; with a gated activation 2 d_ff: the gates, then the features that they multiply (ops/gated.hpp).
class FeedForward {
 public:
  FeedForward(ParameterStore& store, const std::string& name, const GptConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  Tensor activate(const Tensor& x) const;

  Linear up_, down_;
  Activation activation_;
};

// One Transformer block, x (B, T, C) -> (B, T, C).
//   pre: x + f(norm(x))    post: norm(x + f(x))    sandwich: x + post_norm(f(norm(x)))
// for f = attention, then f = feed-forward; with attention_only there is no feed-forward. Pre-LN: Xiong et al. 2020
// (arXiv 2002.04745). Post-LN: Vaswani et al. 2017 (arXiv 1706.03762). Sandwich-LN: Ding et al. 2021 (arXiv
// 2105.13290), and Gemma 2 (arXiv 2408.00118).
class Block {
 public:
  Block(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

 private:
  // residual + dropout(branch)
  Tensor join(const Tensor& branch, const Tensor& residual, const ForwardContext& context, DropoutPlace place) const;
  // One sublayer f with its norms and the residual connection.
  template <class F>
  Tensor sublayer(const Tensor& x, const Norm& norm, const std::optional<Norm>& post_norm,
                  const ForwardContext& context, DropoutPlace place, const F& f) const;

  Norm attention_norm_;
  Attention attention_;
  std::optional<Norm> post_attention_norm_;  // sandwich only
  std::optional<Norm> feed_forward_norm_;    // none with attention_only, nor its norm on the output
  std::optional<FeedForward> feed_forward_;
  std::optional<Norm> post_feed_forward_norm_;
  NormPosition norm_position_;
  double dropout_;
  int64_t layer_;
};

}  // namespace heed::nn
