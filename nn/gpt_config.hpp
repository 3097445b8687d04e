// Architecture of a GPT. The names and defaults are those of the [model] table of a config file.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace heed::nn {

enum class NormKind { layer, rms };
enum class NormPosition { pre, post, sandwich };
enum class Activation { gelu, gelu_erf, relu, relu2, silu, swiglu, geglu };
enum class Position { learned, sinusoidal, rope, alibi, none };
enum class RopeScaling { none, linear, llama3 };

struct GptConfig {
  int64_t vocab_size = 0;  // set from the dataset, not from [model]
  int64_t num_layers = 4;
  int64_t d_model = 128;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 0;  // 0: num_heads
  int64_t d_ff = 0;          // 0: feed_forward_size() chooses
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
  // For Position::rope only: the share of the columns of each head that is rotated, and the angles.
  double rope_fraction = 1.0;
  double rope_base = 10000;
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_scaling_factor = 1;
  int64_t rope_original_seq_len = 8192;
  int64_t sliding_window = 0;        // keys that a query attends to, with its own; 0: all
  std::string window_pattern = "S";  // one letter per layer, repeated: S has the sliding window, L (long) all keys
  // The token that ends a document: attention does not cross it, and positions count from 0 again after it. -1: none.
  // Set from the dataset, not from [model].
  int32_t document_separator = -1;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  bool bias = true;
  bool tie_embeddings = true;
  double logit_softcap = 0;  // c: the logits are c tanh(logits / c); 0: off
  double init_std = 0.02;
  // muP (Yang et al. 2022, arXiv 2203.03466): the d_model for which learning rate and init_std are given. Initial
  // weights, output head and attention scores then depend on d_model so that both fit every width. 0: off.
  int64_t mup_base_width = 0;
  bool zero_init_projections = false;  // the projections into the residual stream begin at 0
  uint32_t seed = 1;

  int64_t head_size() const { return d_model / num_heads; }
  int64_t kv_heads() const { return num_kv_heads == 0 ? num_heads : num_kv_heads; }
  // The longest sequence that has a position for each token: learned positions end at seq_len, the others do not end.
  int64_t max_positions() const {
    return position == Position::learned ? seq_len : std::numeric_limits<int64_t>::max();
  }
  // Each layer has a sliding window of at most seq_len, and positions are relative (RoPE, ALiBi) or none: generation
  // may continue beyond seq_len, since a token still attends only to the tokens in its window.
  bool is_unbounded() const {
    const bool by_distance = position != Position::learned && position != Position::sinusoidal;
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      if (window(layer) == 0 || window(layer) > seq_len) return false;
    }
    return by_distance;
  }
  // The MLP multiplies its hidden features by a gate, which doubles the outputs of its first layer.
  bool is_gated() const { return activation == Activation::swiglu || activation == Activation::geglu; }
  // d_ff, by default 4 d_model. If gated 8/3 d_model, for the same number of weights, rounded up to a multiple of 64
  // unless d_model is below 64.
  int64_t feed_forward_size() const {
    if (d_ff != 0) return d_ff;
    const int64_t two_thirds = (8 * d_model + 2) / 3;
    return !is_gated() ? 4 * d_model : d_model < 64 ? two_thirds : (two_thirds + 63) / 64 * 64;
  }
  // Outputs of the first layer of the MLP.
  int64_t feed_forward_outputs() const { return is_gated() ? 2 * feed_forward_size() : feed_forward_size(); }
  // The sliding window of a layer; 0: none.
  int64_t window(int64_t layer) const {
    return window_pattern[static_cast<size_t>(layer) % window_pattern.size()] == 'S' ? sliding_window : 0;
  }
  // Keys that a query attends to, on average over the queries of a sequence of seq_len tokens and over the layers:
  // seq_len / 2 without a window.
  double mean_keys() const {
    double sum = 0;
    for (int64_t layer = 0; layer < num_layers; ++layer) {
      const auto length = static_cast<double>(seq_len), most = static_cast<double>(window(layer));
      sum += most == 0 || most >= length ? length / 2 : most - most * most / (2 * length);
    }
    return sum / static_cast<double>(num_layers);
  }
  bool has_last_norm() const { return norm_position != NormPosition::post; }
  bool norm_has_bias() const { return bias && norm_gain && norm == NormKind::layer; }
  int64_t sublayers() const { return (attention_only ? 1 : 2) * num_layers; }
  // m of muP: how many times wider than its base the model is. 1 without muP.
  double width_multiplier() const {
    return mup_base_width == 0 ? 1 : static_cast<double>(d_model) / static_cast<double>(mup_base_width);
  }
  // Initial std of the other matrices of the blocks; 1 / sqrt(m) since their fan-in grows with the width.
  double hidden_init_std() const { return init_std / std::sqrt(width_multiplier()); }
  // Initial std of the projections into the residual stream, one in each sublayer: it keeps the variance of the sum
  // over all of them (GPT-2).
  double residual_init_std() const {
    return zero_init_projections ? 0 : init_std / std::sqrt(static_cast<double>(sublayers()) * width_multiplier());
  }
  // Factor of the attention scores. With muP it falls like 1 / D, since queries and keys come to agree in training and
  // their product then grows like D; the 8 leaves heads of size 64 as they are (Yang et al.'s package mup).
  double attention_scale() const {
    const auto size = static_cast<double>(head_size());
    return mup_base_width == 0 ? 1 / std::sqrt(size) : 8 / size;
  }
  // Columns of each head that are rotated; 0 if rope_fraction does not make an even number of them. The fraction may be
  // rounded, as 0.667 of 6 columns is.
  int64_t rope_columns() const {
    const double columns = rope_fraction * static_cast<double>(head_size()), even = 2 * std::round(columns / 2);
    return std::abs(columns - even) < 0.01 ? static_cast<int64_t>(even) : 0;
  }
};

struct ParameterCount {
  double matrices = 0;  // two-dimensional: group 0 of the ParameterStore
  double vectors = 0;   // biases and gains of norms: group 1
  double hidden = 0;    // of the matrices, those in the blocks
  double all() const { return matrices + vectors; }
};

// The count of Gpt(config).parameters(), from the declarations of its parameters alone: no memory is allocated for
// them (nn/gpt.cpp). config.vocab_size must be set. In double, which is exact up to 2^53 and does not overflow for any
// config. Throws what the constructor of Gpt throws.
ParameterCount count_parameters(const GptConfig& config);

// FLOPs of training for each token, forward and backward: 6 per weight of the linear layers and of the head, tied or
// not; and in each layer 12 d_model per key that a query attends to (PaLM, appendix B: arXiv 2204.02311, which counts
// all seq_len keys; here causality and sliding windows leave mean_keys()).
struct FlopsPerToken {
  double weights = 0, attention = 0;
  double all() const { return weights + attention; }
};
FlopsPerToken flops_per_token(const GptConfig& config);

}  // namespace heed::nn
