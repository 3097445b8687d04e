// The model classes of the Python package transformers that compute models which heed trains: what each can compute,
// and how it names and lays out its tensors. `heed export` and `heed import` both read this table.
//
// Read from transformers 5.24 and 4.57 (src/transformers/models/<model_type>).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/gpt_config.hpp"

namespace heed::train {

// absolute: a table of position embeddings, which also serves sinusoidal positions and, with zeros, none. rope: also
// none, by frequencies of almost 0 (linear scaling), if the class has rope_scaling.
enum class ClassPositions { absolute, rope, alibi };
enum class ClassWindows { none, same_in_all_layers, by_layer };
// The rows of the weights of query, key and value projection: three tensors; one with all queries, then all keys, then
// all values; or one with query, key and value of each head in turn.
enum class QkvLayout { separate, stacked, by_head };

// Names of tensors. Those of a layer follow the layer's prefix, in which {} is its number. Without ".weight" and
// ".bias". Empty: the class has no such tensor.
struct TensorNames {
  std::string_view token_embedding = {}, position_embedding = {}, embedding_norm = {};
  std::string_view layer = {};
  std::string_view attention_norm = {}, post_attention_norm = {}, feed_forward_norm = {}, post_feed_forward_norm = {};
  std::string_view q = {}, k = {}, v = {};  // q alone names a tensor that holds all three
  std::string_view q_norm = {}, k_norm = {}, projection = {};
  std::string_view gate = {}, up = {}, down = {};  // a gated class without gate: up holds the gates, then the features
  std::string_view last_norm = {};
  std::string_view head = "lm_head";
};

struct ModelClass {
  std::string_view model_type = {}, architecture = {};

  nn::NormKind norm = nn::NormKind::rms;
  nn::NormPosition norm_position = nn::NormPosition::pre;
  bool has_norm_gain = true;
  bool gain_is_offset = false;  // the gain is 1 + weight, and token embeddings are multiplied by sqrt(C) (Gemma)
  bool has_norm_bias = true;    // of LayerNorm
  bool is_gated = true;
  std::vector<nn::Activation> activations = {};  // empty: all of its kind, gated or not
  ClassPositions positions = ClassPositions::rope;
  bool has_rope_scaling = true;
  bool has_rope_fraction = false;
  bool rotates_backward = false;  // by minus the angle: the halves of each query and key head are swapped (nanochat)
  ClassWindows windows = ClassWindows::none;
  bool has_kv_heads = true;                              // false: each key and value head is repeated
  bool has_qk_norm = false, has_embedding_norm = false;  // always there, or never
  bool has_softcap = false;
  bool has_qkv_bias = true, has_projection_bias = true, has_mlp_bias = true;
  bool has_optional_biases = false;  // of linear layers: absent in a model without biases; false: zeros
  bool has_fixed_d_ff = false;       // 4 C: smaller ones are padded with zeros
  double fixed_norm_eps = 0;         // 0: a value of config.json
  QkvLayout qkv = QkvLayout::separate;
  bool is_transposed = false;   // weights of linear layers are (inputs, outputs)
  int64_t position_offset = 0;  // rows of the position table before that of position 0
  TensorNames names = {};
};

// All classes, the most widely supported first.
std::span<const ModelClass> model_classes();
// The class with this model_type of config.json, or nullptr.
const ModelClass* find_model_class(std::string_view model_type);

// What this class cannot compute, each as `model.norm = "layer"`; empty if it computes the model exactly.
std::vector<std::string> unsupported_settings(const ModelClass& one, const nn::GptConfig& model);

// The first class that supports all settings. If no class does, throws ConfigError, whose message names the class that
// lacks the fewest settings, and these settings.
const ModelClass& choose_model_class(const nn::GptConfig& model);

// The value of the key of [model], as in a config file without quotes.
std::string_view text(nn::NormKind kind);
std::string_view text(nn::NormPosition position);
std::string_view text(nn::Activation activation);
std::string_view text(nn::Position position);

// The feed-forward width of the class for this model: with attention_only 1, whose weights are 0.
int64_t class_d_ff(const ModelClass& one, const nn::GptConfig& model);

}  // namespace heed::train
