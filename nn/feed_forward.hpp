// y = W2 f(W1 x + b1) + b2, f = GELU (tanh approximation) or ReLU.    x (B, T, C), hidden (B, T, d_ff), y (B, T, C)
#pragma once

#include "nn/gpt_config.hpp"
#include "nn/linear.hpp"

namespace heed::nn {

class FeedForward {
 public:
  FeedForward(ParameterStore& store, const std::string& name, const GptConfig& config);
  Tensor operator()(const Tensor& x) const;

 private:
  Linear up_, down_;
  Activation activation_;
};

}  // namespace heed::nn
