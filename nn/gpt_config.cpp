#include "nn/gpt_config.hpp"

namespace heed::nn {

ParameterCount count_parameters(const GptConfig& config) {
  const auto width = static_cast<double>(config.d_model), hidden = static_cast<double>(config.feed_forward_size());
  const auto up = static_cast<double>(config.feed_forward_outputs());
  const double qkv =
      static_cast<double>(config.num_heads + 2 * config.kv_heads()) * static_cast<double>(config.head_size());
  const double embedding = static_cast<double>(config.vocab_size) * width;
  const double norm = config.bias ? 2 * width : width;  // gain and bias
  ParameterCount block{.matrices = qkv * width + width * width + (up + hidden) * width, .vectors = 2 * norm};
  if (config.bias) block.vectors += qkv + width + up + width;

  const auto layers = static_cast<double>(config.num_layers);
  ParameterCount count{.matrices = layers * block.matrices + embedding, .vectors = layers * block.vectors};
  if (config.position == Position::learned) count.matrices += static_cast<double>(config.seq_len) * width;
  if (config.norm_position == NormPosition::pre) count.vectors += norm;
  if (!config.tie_embeddings) count.matrices += embedding;
  return count;
}

}  // namespace heed::nn
