// Architecture of a GPT. The names and defaults are those of the [model] table of a config file.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace heed::nn {

enum class NormPosition { pre, post };
enum class Activation { gelu, relu };
enum class Position { learned, sinusoidal, alibi, none };

struct GptConfig {
  int64_t vocab_size = 0;  // set from the dataset, not from [model]
  int64_t num_layers = 4;
  int64_t d_model = 128;
  int64_t num_heads = 4;
  int64_t num_kv_heads = 0;  // 0: num_heads
  int64_t d_ff = 0;          // 0: 4 * d_model
  int64_t seq_len = 64;
  NormPosition norm_position = NormPosition::pre;
  double norm_eps = 1e-5;
  Activation activation = Activation::gelu;
  Position position = Position::learned;
  int64_t sliding_window = 0;        // keys that a query attends to, with its own; 0: all
  std::string window_pattern = "S";  // one letter per layer, repeated: S has the sliding window, L (long) all keys
  // The token that ends a document: attention does not cross it, and positions count from 0 again after it. -1: none.
  // Set from the dataset, not from [model].
  int32_t document_separator = -1;
  double dropout = 0.0;
  double attention_dropout = 0.0;
  bool bias = true;
  bool tie_embeddings = true;
  double init_std = 0.02;
  uint32_t seed = 1;

  int64_t head_size() const { return d_model / num_heads; }
  int64_t kv_heads() const { return num_kv_heads == 0 ? num_heads : num_kv_heads; }
  // The longest sequence that has a position for each token: learned positions end at seq_len, the others do not end.
  int64_t max_positions() const {
    return position == Position::learned ? seq_len : std::numeric_limits<int64_t>::max();
  }
  int64_t feed_forward_size() const { return d_ff == 0 ? 4 * d_model : d_ff; }
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
  // Initial std of the projections into the residual stream: it keeps the variance of the sum over all 2 L of them
  // (GPT-2).
  double residual_init_std() const { return init_std / std::sqrt(2.0 * static_cast<double>(num_layers)); }
};

struct ParameterCount {
  double matrices = 0;  // two-dimensional: group 0 of the ParameterStore
  double vectors = 0;   // biases and LayerNorm gains: group 1
  double all() const { return matrices + vectors; }
};

// The count of Gpt(config).parameters(), without building the model. config.vocab_size must be set. In double, which is
// exact up to 2^53 and does not overflow for any config.
ParameterCount count_parameters(const GptConfig& config);

}  // namespace heed::nn
