#include "nn/block.hpp"

#include "autograd/ops/dropout.hpp"
#include "autograd/tape.hpp"

namespace heed::nn {

Block::Block(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer)
    : attention_norm_(store, name + ".attention_norm", config.d_model, config.bias, config.norm_eps),
      attention_(store, name + ".attention", config, layer),
      feed_forward_norm_(store, name + ".feed_forward_norm", config.d_model, config.bias, config.norm_eps),
      feed_forward_(store, name + ".feed_forward", config),
      norm_position_(config.norm_position),
      dropout_(config.dropout),
      layer_(layer) {}

Tensor Block::join(const Tensor& branch, const Tensor& residual, const ForwardContext& context,
                   DropoutPlace place) const {
  const int64_t rows_per_sequence = branch.shape()[1];
  return dropout_add(branch, residual, context.training ? dropout_ : 0.0, context.random(layer_, place),
                     context.first_row * rows_per_sequence);
}

Tensor Block::operator()(const Tensor& x, const ForwardContext& context) const {
  const NameScope scope(fmt::format("blocks.{}", layer_));
  if (norm_position_ == NormPosition::pre) {
    const Tensor mixed = join(attention_(attention_norm_(x), context), x, context, DropoutPlace::attention_residual);
    return join(feed_forward_(feed_forward_norm_(mixed)), mixed, context, DropoutPlace::feed_forward_residual);
  }
  const Tensor mixed = attention_norm_(join(attention_(x, context), x, context, DropoutPlace::attention_residual));
  return feed_forward_norm_(join(feed_forward_(mixed), mixed, context, DropoutPlace::feed_forward_residual));
}

}  // namespace heed::nn
