#include "nn/feed_forward.hpp"

#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"

namespace heed::nn {

FeedForward::FeedForward(ParameterStore& store, const std::string& name, const GptConfig& config)
    : up_(store, name + ".up",
          {.inputs = config.d_model,
           .outputs = config.feed_forward_size(),
           .bias = config.bias,
           .init_std = config.init_std}),
      down_(store, name + ".down",
            {.inputs = config.feed_forward_size(),
             .outputs = config.d_model,
             .bias = config.bias,
             .init_std = config.residual_init_std()}),
      activation_(config.activation) {}

Tensor FeedForward::operator()(const Tensor& x) const {
  const NameScope scope("feed_forward");
  return down_(activation_ == Activation::gelu ? up_.with_gelu(x) : relu(up_(x)));
}

}  // namespace heed::nn
