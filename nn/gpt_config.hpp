// Architecture of a GPT. The names and defaults are those of the [model] table of a config file.
#pragma once

#include <cmath>
#include <cstdint>

namespace heed::nn {

enum class NormKind { layer, rms };
enum class NormPosition { pre, post, sandwich };
enum class Activation { gelu, relu };
enum class Position { learned, sinusoidal, none };

struct GptConfig {
  int64_t vocab_size = 0;  // set from the dataset, not from [model]
  int64_t num_layers = 4;
  int64_t d_model = 128;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 0;  // 0: num_heads
  int64_t d_ff = 0;          // 0: 4 * d_model
  int64_t seq_len = 64;
  NormKind norm = NormKind::layer;
  bool norm_gain = true;
  NormPosition norm_position = NormPosition::pre;
  bool qk_norm = false;
  bool embedding_norm = false;
  bool attention_only = false;
  double norm_eps = 1e-5;
  Activation activation = Activation::gelu;
  Position position = Position::learned;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  bool bias = true;
  bool tie_embeddings = true;
  double init_std = 0.02;
  uint32_t seed = 1;

  int64_t head_size() const { return d_model / num_heads; }
  int64_t kv_heads() const { return num_kv_heads == 0 ? num_heads : num_kv_heads; }
  int64_t feed_forward_size() const { return d_ff == 0 ? 4 * d_model : d_ff; }
  bool has_last_norm() const { return norm_position != NormPosition::post; }
  bool norm_has_bias() const { return bias && norm_gain && norm == NormKind::layer; }
  int64_t sublayers() const { return (attention_only ? 1 : 2) * num_layers; }
  // Initial std of the projections into the residual stream, one in each sublayer: it keeps the variance of the sum
  // over all of them (GPT-2).
  double residual_init_std() const { return init_std / std::sqrt(static_cast<double>(sublayers())); }
};

struct ParameterCount {
  double matrices = 0;  // two-dimensional: group 0 of the ParameterStore
  double vectors = 0;   // biases and gains of norms: group 1
  double all() const { return matrices + vectors; }
};

// The count of Gpt(config).parameters(), from the declarations of its parameters alone: no memory is allocated for
// them (nn/gpt.cpp). config.vocab_size must be set. In double, which is exact up to 2^53 and does not overflow for any
// config. Throws what the constructor of Gpt throws.
ParameterCount count_parameters(const GptConfig& config);

}  // namespace heed::nn
