#include "nn/attention.hpp"

#include "autograd/ops/attention/attention.hpp"
#include "autograd/tape.hpp"

namespace heed::nn {

Attention::Attention(ParameterStore& store, const std::string& name, const GptConfig& config, int64_t layer)
    : qkv_(store, name + ".qkv",
           {.inputs = config.d_model,
            .outputs = (config.num_heads + 2 * config.kv_heads()) * config.head_size(),
            .bias = config.bias,
            .init_std = config.init_std}),
      projection_(store, name + ".projection",
                  {.inputs = config.d_model,
                   .outputs = config.d_model,
                   .bias = config.bias,
                   .init_std = config.residual_init_std()}),
      num_heads_(config.num_heads),
      num_kv_heads_(config.kv_heads()),
      layer_(layer),
      dropout_(config.attention_dropout) {}

Tensor Attention::operator()(const Tensor& x, const ForwardContext& context) const {
  const NameScope scope("attention");
  const Tensor mixed = attention_packed(qkv_(x), {.num_heads = num_heads_,
                                                  .num_kv_heads = num_kv_heads_,
                                                  .dropout = context.training ? dropout_ : 0.0,
                                                  .random = context.random(layer_, DropoutPlace::attention),
                                                  .first_row = context.first_row});
  return projection_(mixed);
}

}  // namespace heed::nn
