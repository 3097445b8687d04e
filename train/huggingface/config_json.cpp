#include "train/huggingface/config_json.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "train/huggingface/export_tensors.hpp"

namespace heed::train {
namespace {

using Json = nlohmann::ordered_json;
using nn::Activation, nn::GptConfig, nn::Position, nn::RopeScaling;

// Names of ACT2FN in transformers; those of gated MLPs are of the gate.
const char* activation_name(const ModelClass& one, Activation activation) {
  switch (activation) {
    case Activation::gelu:
    case Activation::geglu:
      // In openai-gpt "gelu" is the tanh form.
      return one.model_type == "openai-gpt" ? "gelu" : one.is_gated ? "gelu_pytorch_tanh" : "gelu_new";
    case Activation::gelu_erf:
      return "gelu";
    case Activation::relu:
      return "relu";
    case Activation::relu2:
      return "relu2";
    case Activation::silu:
    case Activation::swiglu:
      return "silu";
  }
  return "";
}

// Frequencies divided by this are 0 in the angles of every position that fits into memory: RoPE then rotates nothing.
constexpr double kNoRotation = 1e30;

Json rope_scaling(const GptConfig& model) {
  if (model.position == Position::none) return {{"rope_type", "linear"}, {"factor", kNoRotation}};
  switch (model.rope_scaling) {
    case RopeScaling::none:
      return nullptr;
    case RopeScaling::linear:
      return {{"rope_type", "linear"}, {"factor", model.rope_scaling_factor}};
    case RopeScaling::llama3:
      return {{"rope_type", "llama3"},
              {"factor", model.rope_scaling_factor},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", model.rope_original_seq_len}};
  }
  return nullptr;
}

// columns / head_size; the next larger number where head_size times it, which transformers rounds down, is below
// columns.
double exact_fraction(int64_t columns, int64_t head_size) {
  const auto size = static_cast<double>(head_size);
  const double fraction = static_cast<double>(columns) / size;
  return static_cast<int64_t>(size * fraction) == columns ? fraction : std::nextafter(fraction, 2.0);
}

void add_rope(Json& json, const ModelClass& one, const GptConfig& model) {
  const Json scaling = rope_scaling(model);
  Json parameters = scaling.is_null() ? Json{{"rope_type", "default"}} : scaling;
  parameters["rope_theta"] = model.rope_base;
  json[one.model_type == "gpt_neox" ? "rotary_emb_base" : "rope_theta"] = model.rope_base;
  json["rope_scaling"] = scaling;
  if (one.has_rope_fraction) {
    const double fraction = exact_fraction(model.rope_columns(), model.head_size());
    json[one.model_type == "gpt_neox" ? "rotary_pct" : "partial_rotary_factor"] = fraction;
    parameters["partial_rotary_factor"] = fraction;
  }
  if (one.model_type == "gemma3_text") {
    json["rope_local_base_freq"] = model.rope_base;
    json["rope_parameters"] = {{"full_attention", parameters}, {"sliding_attention", parameters}};
    return;
  }
  json["rope_parameters"] = parameters;
}

void add_windows(Json& json, const ModelClass& one, const GptConfig& model) {
  const bool has_windows = model.sliding_window > 0;
  if (one.windows == ClassWindows::none) return;
  // Gemma has to have a number, which has no effect without a layer that uses it.
  const Json none = one.gain_is_offset ? Json(model.seq_len) : Json(nullptr);
  json["sliding_window"] = has_windows ? Json(model.sliding_window) : none;
  if (one.windows != ClassWindows::by_layer) return;
  json["use_sliding_window"] = has_windows;
  json["max_window_layers"] = 0;
  Json types = Json::array();
  for (int64_t layer = 0; layer < model.num_layers; ++layer) {
    types.push_back(model.window(layer) > 0 ? "sliding_attention" : "full_attention");
  }
  json["layer_types"] = types;
}

// gpt2 and openai-gpt.
void add_gpt(Json& json, const ModelClass& one, const GptConfig& model) {
  json["n_positions"] = model.seq_len;
  if (one.model_type == "gpt2") json["n_ctx"] = model.seq_len;  // for the converter of llama.cpp
  json["n_embd"] = model.d_model;
  json["n_layer"] = model.num_layers;
  json["n_head"] = model.num_heads;
  if (one.model_type == "gpt2") json["n_inner"] = class_d_ff(one, model);
  json[one.model_type == "gpt2" ? "activation_function" : "afn"] = activation_name(one, model.activation);
  json["layer_norm_epsilon"] = model.norm_eps;
  json["embd_pdrop"] = json["resid_pdrop"] = model.dropout;
  json["attn_pdrop"] = model.attention_dropout;
}

void add_opt(Json& json, const ModelClass& one, const GptConfig& model) {
  json["max_position_embeddings"] = model.seq_len;
  json["hidden_size"] = json["word_embed_proj_dim"] = model.d_model;
  json["ffn_dim"] = class_d_ff(one, model);
  json["num_hidden_layers"] = model.num_layers;
  json["num_attention_heads"] = model.num_heads;
  json["activation_function"] = activation_name(one, model.activation);
  json["do_layer_norm_before"] = model.norm_position == nn::NormPosition::pre;
  json["dropout"] = model.dropout;
  json["attention_dropout"] = model.attention_dropout;
}

void add_mpt(Json& json, const ModelClass&, const GptConfig& model) {
  json["d_model"] = model.d_model;
  json["n_heads"] = model.num_heads;
  json["n_layers"] = model.num_layers;
  json["expansion_ratio"] = 4;
  json["max_seq_len"] = model.seq_len;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["no_bias"] = true;
  // transformers 5 takes only an integer as attn_pdrop.
  json["attn_config"] = {{"alibi", true}, {"attn_pdrop", 0}};
}

void add_bloom(Json& json, const ModelClass&, const GptConfig& model) {
  json["hidden_size"] = model.d_model;
  json["n_layer"] = model.num_layers;
  json["n_head"] = model.num_heads;
  json["seq_length"] = model.seq_len;
  json["layer_norm_epsilon"] = model.norm_eps;
  json["apply_residual_connection_post_layernorm"] = false;
  json["hidden_dropout"] = model.dropout;
  json["attention_dropout"] = model.attention_dropout;
}

// The other classes, which have most keys in common.
void add_llama_like(Json& json, const ModelClass& one, const GptConfig& model) {
  const bool is_gemma = one.gain_is_offset;
  json["hidden_size"] = model.d_model;
  json["intermediate_size"] = class_d_ff(one, model);
  json["num_hidden_layers"] = model.num_layers;
  json["num_attention_heads"] = model.num_heads;
  if (one.has_kv_heads) json["num_key_value_heads"] = model.kv_heads();
  if (one.norm == nn::NormKind::rms) json["head_dim"] = model.head_size();
  const nn::Activation silu_if_unused = one.is_gated == model.is_gated() ? model.activation
                                        : one.is_gated                   ? Activation::swiglu
                                                                         : Activation::silu;
  json[is_gemma ? "hidden_activation" : "hidden_act"] = activation_name(one, silu_if_unused);
  json["max_position_embeddings"] = model.seq_len;
  json[one.model_type == "starcoder2"    ? "norm_epsilon"
       : one.norm == nn::NormKind::layer ? "layer_norm_eps"
                                         : "rms_norm_eps"] = model.norm_eps;
  json["attention_dropout"] = model.attention_dropout;
  if (one.model_type == "starcoder2") {
    json["use_bias"] = model.bias;
    json["residual_dropout"] = json["embedding_dropout"] = model.dropout;
  } else if (one.model_type == "stablelm") {
    json["use_qkv_bias"] = false;
    json["use_parallel_residual"] = json["qk_layernorm"] = false;
    json["hidden_dropout"] = model.dropout;
  } else if (one.model_type == "gpt_neox") {
    json["use_parallel_residual"] = false;
    json["attention_bias"] = true;
    json["hidden_dropout"] = model.dropout;
  } else if (one.has_projection_bias) {
    json["attention_bias"] = model.bias;
  }
  if (one.has_mlp_bias && one.norm == nn::NormKind::rms) json["mlp_bias"] = model.bias;
  if (is_gemma) {
    json["query_pre_attn_scalar"] = model.head_size();
    json["attn_logit_softcapping"] = nullptr;
  }
  if (one.has_softcap) {
    json["final_logit_softcapping"] = model.logit_softcap > 0 ? Json(model.logit_softcap) : Json(nullptr);
  }
  add_windows(json, one, model);
  add_rope(json, one, model);
}

Json token_or_null(std::optional<int32_t> token) { return token ? Json(*token) : Json(nullptr); }

}  // namespace

std::string config_json(const ModelClass& one, const GptConfig& model, DType weights,
                        std::optional<int32_t> end_token) {
  Json json{{"model_type", one.model_type}, {"architectures", {one.architecture}}};
  json["vocab_size"] = model.vocab_size;
  if (one.model_type == "opt") {
    add_opt(json, one, model);
  } else if (one.model_type == "mpt") {
    add_mpt(json, one, model);
  } else if (one.model_type == "bloom") {
    add_bloom(json, one, model);
  } else if (one.positions == ClassPositions::absolute) {
    add_gpt(json, one, model);
  } else {
    add_llama_like(json, one, model);
  }
  json["initializer_range"] = model.init_std;
  json["tie_word_embeddings"] = has_tied_head(one, model);
  json["bos_token_id"] = json["eos_token_id"] = token_or_null(end_token);
  json["pad_token_id"] = nullptr;
  json["torch_dtype"] = json["dtype"] = weights == DType::bf16 ? "bfloat16" : "float32";
  return json.dump(2) + "\n";
}

std::string generation_config_json(std::optional<int32_t> end_token) {
  const Json json{{"bos_token_id", token_or_null(end_token)},
                  {"eos_token_id", token_or_null(end_token)},
                  {"pad_token_id", nullptr}};
  return json.dump(2) + "\n";
}

}  // namespace heed::train
