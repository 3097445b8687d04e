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
      head_size_(config.head_size()),
      layer_(layer),
      dropout_(config.attention_dropout) {}

Tensor Attention::mix(const Tensor& x, const ForwardContext& context) const {
  return attention_packed(qkv_(x), {.num_heads = num_heads_,
                                    .num_kv_heads = num_kv_heads_,
                                    .dropout = context.training ? dropout_ : 0.0,
                                    .random = context.random(layer_, DropoutPlace::attention),
                                    .first_row = context.first_row});
}

// Computes queries, keys and values with separate matmuls: keys and values are then contiguous, and one copy each
// appends them to the cache.
Tensor Attention::mix_with_cache(const Tensor& x, KvCache& cache) const {
  const int64_t queries = num_heads_ * head_size_, keys = num_kv_heads_ * head_size_;
  const KvCache::KeysAndValues all =
      cache.append(layer_, {qkv_.part(x, queries, keys), qkv_.part(x, queries + keys, keys)});
  return attention(qkv_.part(x, 0, queries), all.keys, all.values,
                   {.num_heads = num_heads_, .num_kv_heads = num_kv_heads_});
}

Tensor Attention::operator()(const Tensor& x, const ForwardContext& context) const {
  const NameScope scope("attention");
  return projection_(context.cache == nullptr ? mix(x, context) : mix_with_cache(x, *context.cache));
}

}  // namespace heed::nn
