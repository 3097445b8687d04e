// One Transformer block, x (B, T, C) -> (B, T, C).
//   pre:  x + f(norm(x))    post: norm(x + f(x))    for f = attention, then f = feed-forward
// Pre-LN: Xiong et al. 2020 (arXiv 2002.04745). Post-LN: Vaswani et al. 2017 (arXiv 1706.03762).
#pragma once

#include "nn/attention.hpp"
#include "nn/feed_forward.hpp"
#include "nn/norm.hpp"

namespace heed::nn {

class Block {
 public:
  Block(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer);
  Tensor operator()(const Tensor& x, const ForwardContext& context) const;

 private:
  // residual + dropout(branch)
  Tensor join(const Tensor& branch, const Tensor& residual, const ForwardContext& context, DropoutPlace place) const;

  LayerNorm attention_norm_;
  Attention attention_;
  LayerNorm feed_forward_norm_;
  FeedForward feed_forward_;
  NormPosition norm_position_;
  double dropout_;
  int64_t layer_;
};

}  // namespace heed::nn
