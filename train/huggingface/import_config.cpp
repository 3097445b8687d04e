#include "train/huggingface/import_config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"
#include "data/io/json_reader.hpp"
#include "data/io/posix_file.hpp"
#include "data/io/quoted_start.hpp"

namespace heed::train {
namespace {

using data::JsonObject;
using nn::Activation, nn::GptConfig, nn::Position, nn::RopeScaling;

// The widths and layers that a heed config may have; the other values are checked with it (import_model.cpp).
constexpr int64_t kMaxConfigBytes = 1 << 20, kLargest = int64_t{1} << 31, kMaxWidth = 65536, kMaxLayers = 1024;
constexpr std::string_view kImported[] = {"gpt2", "llama", "mistral", "qwen2",     "qwen3",
                                          "phi3", "arcee", "apertus", "starcoder2"};

Activation activation_of(const std::string& name, bool is_gated, const std::string& where) {
  const bool is_tanh = name == "gelu_new" || name == "gelu_pytorch_tanh";
  if (is_gated) {
    require<DataError>(name == "silu" || name == "swish" || is_tanh,
                       "{}: the activation {} of a gated MLP must be \"silu\" or \"gelu_pytorch_tanh\"", where,
                       data::quoted_start(name));
    return is_tanh ? Activation::geglu : Activation::swiglu;
  }
  if (is_tanh) return Activation::gelu;
  if (name == "gelu") return Activation::gelu_erf;
  if (name == "relu") return Activation::relu;
  if (name == "relu2") return Activation::relu2;
  require<DataError>(name == "silu" || name == "swish",
                     "{}: the activation {} must be \"gelu_new\", \"gelu_pytorch_tanh\", \"gelu\", \"relu\", \"relu2\" "
                     "or \"silu\"",
                     where, data::quoted_start(name));
  return Activation::silu;
}

// A flag that heed's models have with one value only.
void require_flag(const JsonObject& json, const char* key, bool allowed) {
  require<DataError>(json.flag_or(key, allowed) == allowed, "{}: \"{}\" must be {}", json.where(), key, allowed);
}

void read_gpt2(const JsonObject& json, GptConfig& model) {
  model.seq_len = json.integer("n_positions", 1, kLargest);
  model.d_model = json.integer("n_embd", 1, kMaxWidth);
  model.num_layers = json.integer("n_layer", 1, kMaxLayers);
  model.num_heads = json.integer("n_head", 1, kMaxWidth);
  model.d_ff = json.integer_or("n_inner", 1, kLargest, 4 * model.d_model);
  model.norm_eps = json.number_or("layer_norm_epsilon", 1e-5);
  model.activation = activation_of(json.text_or("activation_function", "gelu_new"), false, json.where());
  model.position = Position::learned;
  model.tie_embeddings = json.flag_or("tie_word_embeddings", true);
  model.dropout = json.number_or("resid_pdrop", 0.1);
  model.attention_dropout = json.number_or("attn_pdrop", 0.1);
  require_flag(json, "scale_attn_weights", true);
  require_flag(json, "scale_attn_by_inverse_layer_idx", false);
  require_flag(json, "add_cross_attention", false);
}

void read_rope_scaling(const JsonObject& scaling, GptConfig& model) {
  const std::string kind = scaling.text_or("rope_type", scaling.text_or("type", "default"));
  if (kind == "default") return;
  model.rope_scaling_factor = scaling.number("factor");
  if (kind == "linear") {
    model.rope_scaling = RopeScaling::linear;
    return;
  }
  require<DataError>(kind == "llama3", "{}: rope_type {} must be \"default\", \"linear\" or \"llama3\"",
                     scaling.where(), data::quoted_start(kind));
  require<DataError>(scaling.number("low_freq_factor") == 1 && scaling.number("high_freq_factor") == 4,
                     "{}: low_freq_factor and high_freq_factor must be 1 and 4", scaling.where());
  model.rope_scaling = RopeScaling::llama3;
  model.rope_original_seq_len = scaling.integer("original_max_position_embeddings", 1, kLargest);
}

// transformers 5 has all of RoPE in rope_parameters; 4 has rope_theta and rope_scaling. As in transformers,
// rope_scaling comes before rope_parameters, and what is in either of them before the keys outside.
void read_rope(const JsonObject& json, const ModelClass& one, GptConfig& model) {
  model.position = Position::rope;
  const char* key = json.has("rope_scaling") ? "rope_scaling" : "rope_parameters";
  // Without either, transformers scales the frequencies of apertus, also if there is a rope_theta.
  require<DataError>(one.model_type != "apertus" || json.has(key), "{}: \"rope_parameters\" must be given for apertus",
                     json.where());
  double fraction = json.number_or("partial_rotary_factor", 1);
  model.rope_base = json.number_or("rope_theta", one.model_type == "apertus" ? 12e6 : 1e4);
  if (json.has(key)) {
    const JsonObject parameters = json.object(key);
    model.rope_base = parameters.number_or("rope_theta", model.rope_base);
    fraction = parameters.number_or("partial_rotary_factor", fraction);
    read_rope_scaling(parameters, model);
  }
  require<DataError>(model.rope_scaling == RopeScaling::none || one.has_rope_scaling,
                     "{}: rope_type must be \"default\" for {}", json.where(), one.model_type);
  require<DataError>(fraction == 1 || one.has_rope_fraction, "{}: partial_rotary_factor must be 1", json.where());
  require<DataError>(0 < fraction && fraction <= 1, "{}: partial_rotary_factor is {}, it must be above 0 and at most 1",
                     json.where(), fraction);
  // transformers rounds the number of columns down.
  const auto columns = static_cast<int64_t>(static_cast<double>(model.head_size()) * fraction);
  require<DataError>(columns > 0 && columns % 2 == 0,
                     "{}: partial_rotary_factor {} rotates {} of the {} columns of a head, it must be an even number",
                     json.where(), fraction, columns, model.head_size());
  model.rope_fraction = static_cast<double>(columns) / static_cast<double>(model.head_size());
}

// "S" for each layer with the sliding window, "L" for the others.
std::string window_pattern(const JsonObject& json, int64_t num_layers) {
  constexpr int64_t kFullLayers = 28;  // the default of qwen2 and qwen3
  std::string pattern(num_layers, 'S');
  if (!json.has("layer_types")) {
    const int64_t full = json.integer_or("max_window_layers", 0, kLargest, kFullLayers);
    std::fill_n(pattern.begin(), std::min(full, num_layers), 'L');
    return pattern;
  }
  const nlohmann::json& types = json.list("layer_types");
  require<DataError>(static_cast<int64_t>(types.size()) == num_layers, "{}: layer_types has {} entries for {} layers",
                     json.where(), types.size(), num_layers);
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    const bool is_full = types[layer] == "full_attention";
    require<DataError>(is_full || types[layer] == "sliding_attention",
                       "{}: layer_types must be \"full_attention\" or \"sliding_attention\"", json.where());
    if (is_full) pattern[layer] = 'L';
  }
  return pattern;
}

void read_windows(const JsonObject& json, const ModelClass& one, GptConfig& model) {
  if (one.windows == ClassWindows::none) return;
  const bool by_layer = one.windows == ClassWindows::by_layer;
  if (by_layer && !json.flag_or("use_sliding_window", false)) return;
  // The default of these classes; null is no window.
  constexpr int64_t kDefaultWindow = 4096;
  const bool has_default = by_layer || one.model_type == "mistral";
  const bool is_missing = !json.json().contains("sliding_window");
  if (!json.has("sliding_window") && !(is_missing && has_default)) return;
  const std::string pattern = by_layer ? window_pattern(json, model.num_layers) : "S";
  if (pattern.find('S') == std::string::npos) return;
  model.sliding_window = json.integer_or("sliding_window", 1, kLargest, kDefaultWindow);
  model.window_pattern = pattern.find('L') == std::string::npos ? "S" : pattern;
}

void read_biases(const JsonObject& json, ImportedConfig& result) {
  const ModelClass& one = *result.model_class;
  const bool is_starcoder2 = one.model_type == "starcoder2";
  const bool attention = !one.has_optional_biases ||
                         (is_starcoder2 ? json.flag_or("use_bias", true) : json.flag_or("attention_bias", false));
  const bool mlp = !one.has_optional_biases || (is_starcoder2 ? attention : json.flag_or("mlp_bias", false));
  result.qkv_bias = one.has_qkv_bias && attention;
  result.projection_bias = one.has_projection_bias && attention;
  result.mlp_bias = one.has_mlp_bias && mlp;
  const bool norm_bias = one.norm == nn::NormKind::layer && one.has_norm_bias;
  result.model.bias = norm_bias || result.qkv_bias || result.projection_bias || result.mlp_bias;
}

void read_llama_like(const JsonObject& json, const ModelClass& one, GptConfig& model) {
  model.seq_len = json.integer("max_position_embeddings", 1, kLargest);
  model.d_model = json.integer("hidden_size", 1, kMaxWidth);
  model.num_layers = json.integer("num_hidden_layers", 1, kMaxLayers);
  model.num_heads = json.integer("num_attention_heads", 1, kMaxWidth);
  model.num_kv_heads = json.integer_or("num_key_value_heads", 1, kMaxWidth, model.num_heads);
  model.d_ff = json.integer("intermediate_size", 1, kLargest);
  model.norm_eps = json.number(one.norm == nn::NormKind::layer ? "norm_epsilon" : "rms_norm_eps");
  model.activation = activation_of(json.text("hidden_act"), one.is_gated, json.where());
  model.tie_embeddings = json.flag_or("tie_word_embeddings", one.norm == nn::NormKind::layer);
  model.attention_dropout = json.number_or("attention_dropout", 0);
  require<DataError>(model.d_model % model.num_heads == 0, "{}: hidden_size must be a multiple of num_attention_heads",
                     json.where());
  const int64_t head_size = json.integer_or("head_dim", 1, kLargest, model.head_size());
  require<DataError>(head_size == model.head_size(),
                     "{}: head_dim is {}, it must be hidden_size / num_attention_heads = {}", json.where(), head_size,
                     model.head_size());
  read_rope(json, one, model);
  read_windows(json, one, model);
}

}  // namespace

ImportedConfig read_import_config(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  const nlohmann::json file = data::read_json_file(path, kMaxConfigBytes);
  const JsonObject json(file, data::quoted_path(path));
  const std::string type = json.text("model_type");
  require<DataError>(std::find(std::begin(kImported), std::end(kImported), type) != std::end(kImported),
                     "{}: model_type {} cannot be imported, it must be one of {}", json.where(),
                     data::quoted_start(type), fmt::join(kImported, ", "));
  ImportedConfig result{.model_class = find_model_class(type), .model = {}};
  const ModelClass& one = *result.model_class;
  GptConfig& model = result.model;
  model.vocab_size = json.integer("vocab_size", 1, kLargest);
  model.norm = one.norm;
  model.norm_position = one.norm_position;
  model.qk_norm = one.has_qk_norm;
  model.init_std = json.number_or("initializer_range", 0.02);
  require<DataError>(!json.has("quantization_config"), "{}: quantization_config must be null", json.where());
  read_biases(json, result);
  if (type == "gpt2") {
    read_gpt2(json, model);
  } else {
    read_llama_like(json, one, model);
  }
  return result;
}

}  // namespace heed::train
