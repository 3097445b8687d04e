#include "train/huggingface/plain_parts.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numbers>

#include "autograd/core/check.hpp"
#include "train/huggingface/plain_reader.hpp"

namespace heed::train {
namespace {

constexpr int64_t kMaxConfigBytes = 1 << 20, kLargest = int64_t{1} << 31;

double tanh_gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

std::function<double(double)> activation_of(const std::string& name, bool gelu_is_tanh, const std::string& where) {
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || (name == "gelu" && gelu_is_tanh)) return tanh_gelu;
  if (name == "gelu") return [](double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2); };
  if (name == "relu") return [](double x) { return std::max(x, 0.0); };
  if (name == "relu2") return [](double x) { return x > 0 ? x * x : 0.0; };
  if (name == "silu") return [](double x) { return x / (1 + std::exp(-x)); };
  throw DataError(fmt::format("{}: activation \"{}\" is not supported", where, name));
}

std::vector<double> alibi_slopes(int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (int64_t i = 1; i <= heads; ++i) {
    const double exponent = i <= power ? 8.0 * static_cast<double>(i) : 4.0 * static_cast<double>(2 * (i - power) - 1);
    slopes.push_back(std::pow(2.0, -exponent / static_cast<double>(power)));
  }
  return slopes;
}

// The names and layouts of each model class.
class Families : public PlainReader {
 public:
  using PlainReader::PlainReader;

  void read() {
    if (is("gpt2") || is("openai-gpt")) {
      read_gpt();
    } else if (is("opt")) {
      read_opt();
    } else if (is("mpt")) {
      read_mpt();
    } else if (is("bloom")) {
      read_bloom();
    } else if (is("gpt_neox")) {
      read_neox();
    } else {
      read_llama_like();
    }
  }

 private:
  void read_gpt() {
    const bool is_openai = is("openai-gpt");
    set_sizes("n_embd", "n_head");
    const int64_t width = parts().width,
                  inner = is_openai ? 4 * width : config().integer_or("n_inner", 1, kLargest, 4 * width);
    parts().positions = size("n_positions");
    parts().eps = config().number("layer_norm_epsilon");
    parts().is_post = is_openai;
    parts().activation =
        activation_of(config().text(is_openai ? "afn" : "activation_function"), is_openai, config().where());
    const std::string token = is_openai ? "tokens_embed" : "wte", position = is_openai ? "positions_embed" : "wpe";
    read_embedding("transformer." + token + ".weight");
    parts().position_table = tensor("transformer." + position + ".weight", {parts().positions, width});
    for (int64_t i = 0; i < size("n_layer"); ++i) {
      const std::string h = fmt::format("transformer.h.{}.", i);
      PlainLayer& layer = parts().layers.emplace_back();
      layer.attention_norm = norm(h + "ln_1");
      layer.mlp_norm = norm(h + "ln_2");
      split_thirds(layer, linear(h + "attn.c_attn", 3 * width, width, true));
      layer.projection = linear(h + "attn.c_proj", width, width, true);
      layer.up = linear(h + "mlp.c_fc", inner, width, true);
      layer.down = linear(h + "mlp.c_proj", width, inner, true);
    }
    if (!is_openai) parts().last_norm = norm("transformer.ln_f");
    read_head("lm_head");
  }

  void read_opt() {
    set_sizes("hidden_size", "num_attention_heads");
    const int64_t width = parts().width, inner = size("ffn_dim");
    parts().positions = size("max_position_embeddings");
    parts().eps = 1e-5;
    parts().is_post = !config().flag("do_layer_norm_before");
    parts().activation = activation_of(config().text("activation_function"), false, config().where());
    const std::string decoder = "model.decoder.";
    read_embedding(decoder + "embed_tokens.weight");
    const std::vector<float> table = tensor(decoder + "embed_positions.weight", {parts().positions + 2, width});
    parts().position_table.assign(table.begin() + 2 * width, table.end());
    for (int64_t i = 0; i < size("num_hidden_layers"); ++i) {
      const std::string h = fmt::format("{}layers.{}.", decoder, i);
      PlainLayer& layer = parts().layers.emplace_back();
      layer.attention_norm = norm(h + "self_attn_layer_norm");
      layer.mlp_norm = norm(h + "final_layer_norm");
      read_projections(layer, h + "self_attn.", "out_proj");
      layer.up = linear(h + "fc1", inner, width);
      layer.down = linear(h + "fc2", width, inner);
    }
    if (!parts().is_post) parts().last_norm = norm(decoder + "final_layer_norm");
    read_head("lm_head");
  }

  void read_mpt() {
    set_sizes("d_model", "n_heads");
    const int64_t width = parts().width;
    parts().eps = config().number("layer_norm_epsilon");
    parts().slopes = alibi_slopes(parts().heads);
    parts().activation = activation_of("gelu", false, config().where());
    read_embedding("transformer.wte.weight");
    for (int64_t i = 0; i < size("n_layers"); ++i) {
      const std::string h = fmt::format("transformer.blocks.{}.", i);
      PlainLayer& layer = parts().layers.emplace_back();
      layer.attention_norm = norm(h + "norm_1");
      layer.mlp_norm = norm(h + "norm_2");
      split_thirds(layer, linear(h + "attn.Wqkv", 3 * width, width));
      layer.projection = linear(h + "attn.out_proj", width, width);
      layer.up = linear(h + "ffn.up_proj", 4 * width, width);
      layer.down = linear(h + "ffn.down_proj", width, 4 * width);
    }
    parts().last_norm = norm("transformer.norm_f");
    read_head("lm_head");
  }

  // The names that bloom and gpt_neox share.
  void read_fused_layer(PlainLayer& layer, const std::string& h, const std::string& attention, int64_t inner) {
    const int64_t width = parts().width;
    layer.attention_norm = norm(h + "input_layernorm");
    layer.mlp_norm = norm(h + "post_attention_layernorm");
    split_by_head(layer, linear(h + attention + ".query_key_value", 3 * width, width));
    layer.projection = linear(h + attention + ".dense", width, width);
    layer.up = linear(h + "mlp.dense_h_to_4h", inner, width);
    layer.down = linear(h + "mlp.dense_4h_to_h", width, inner);
  }

  void read_bloom() {
    set_sizes("hidden_size", "n_head");
    parts().eps = config().number("layer_norm_epsilon");
    parts().slopes = alibi_slopes(parts().heads);
    parts().activation = tanh_gelu;
    read_embedding("transformer.word_embeddings.weight");
    parts().embedding_norm = norm("transformer.word_embeddings_layernorm");
    for (int64_t i = 0; i < size("n_layer"); ++i) {
      const std::string h = fmt::format("transformer.h.{}.", i);
      read_fused_layer(parts().layers.emplace_back(), h, "self_attention", 4 * parts().width);
    }
    parts().last_norm = norm("transformer.ln_f");
    read_head("lm_head");
  }

  void read_neox() {
    set_sizes("hidden_size", "num_attention_heads");
    require<DataError>(!config().flag("use_parallel_residual"), "{}: use_parallel_residual must be false",
                       config().where());
    parts().eps = config().number("layer_norm_eps");
    parts().activation = activation_of(config().text("hidden_act"), false, config().where());
    set_frequencies(config().number("rotary_emb_base"), config().number("rotary_pct"));
    read_embedding("gpt_neox.embed_in.weight");
    for (int64_t i = 0; i < size("num_hidden_layers"); ++i) {
      const std::string h = fmt::format("gpt_neox.layers.{}.", i);
      read_fused_layer(parts().layers.emplace_back(), h, "attention", size("intermediate_size"));
    }
    parts().last_norm = norm("gpt_neox.final_layer_norm");
    read_head("embed_out");
  }

  void read_llama_like() {
    constexpr const char* kTypes[] = {"llama",       "mistral",    "qwen2",      "qwen3",    "phi3",
                                      "arcee",       "apertus",    "starcoder2", "stablelm", "gemma2",
                                      "gemma3_text", "vaultgemma", "nanochat"};
    require<DataError>(std::find(std::begin(kTypes), std::end(kTypes), model_type()) != std::end(kTypes),
                       "{}: model_type \"{}\" is not supported", config().where(), model_type());
    set_sizes("hidden_size", "num_attention_heads");
    const bool has_layer_norm = is("starcoder2") || is("stablelm");
    parts().kv_heads = config().integer_or("num_key_value_heads", 1, kLargest, parts().heads);
    parts().is_rms = !has_layer_norm;
    parts().eps = config().number(is("starcoder2") ? "norm_epsilon"
                                  : is("stablelm") ? "layer_norm_eps"
                                                   : "rms_norm_eps");
    parts().activation =
        activation_of(config().text(is_gemma() ? "hidden_activation" : "hidden_act"), false, config().where());
    parts().rotates_backward = parts().rotates_before_norm = is("nanochat");
    parts().softcap = config().number_or("final_logit_softcapping", 0);
    if (is_gemma()) {
      parts().embedding_scale = std::sqrt(static_cast<double>(parts().width));
      parts().score_scale = 1 / std::sqrt(config().number("query_pre_attn_scalar"));
      require<DataError>(!config().has("attn_logit_softcapping"), "{}: attn_logit_softcapping must be null",
                         config().where());
    }
    set_frequencies(config().number("rope_theta"), config().number_or("partial_rotary_factor", 1));
    read_embedding("model.embed_tokens.weight");
    if (is("nanochat")) parts().embedding_norm.is_there = parts().last_norm.is_there = true;
    for (int64_t i = 0; i < size("num_hidden_layers"); ++i) {
      PlainLayer& layer = parts().layers.emplace_back();
      read_layer(layer, fmt::format("model.layers.{}.", i));
      layer.window = window_of(i);
    }
    if (!is("nanochat")) parts().last_norm = norm("model.norm");
    read_head("lm_head");
  }

  int64_t window_of(int64_t layer) const {
    if (!config().has("sliding_window")) return 0;
    const int64_t window = size("sliding_window");
    if (!config().has("layer_types")) return window;
    return config().list("layer_types").at(layer) == "sliding_attention" ? window : 0;
  }

  void read_layer(PlainLayer& layer, const std::string& h) {
    read_norms(layer, h);
    if (is("phi3")) {
      const int64_t keys = parts().kv_heads * parts().head_size;
      split_thirds(layer, linear(h + "self_attn.qkv_proj", parts().width + 2 * keys, parts().width));
      layer.projection = linear(h + "self_attn.o_proj", parts().width, parts().width);
    } else {
      read_projections(layer, h + "self_attn.", "o_proj");
    }
    read_mlp(layer, h + "mlp.");
  }

  void read_norms(PlainLayer& layer, const std::string& h) {
    if (is("qwen3") || is("apertus") || is("gemma3_text")) {
      layer.q_norm = norm(h + "self_attn.q_norm", parts().head_size);
      layer.k_norm = norm(h + "self_attn.k_norm", parts().head_size);
    }
    if (is("nanochat")) {
      for (PlainNorm* one : {&layer.attention_norm, &layer.mlp_norm, &layer.q_norm, &layer.k_norm})
        one->is_there = true;
      return;
    }
    layer.attention_norm = norm(h + (is("apertus") ? "attention_layernorm" : "input_layernorm"));
    layer.mlp_norm = norm(h + (is("apertus") ? "feedforward_layernorm"
                               : is_gemma()  ? "pre_feedforward_layernorm"
                                             : "post_attention_layernorm"));
    if (!is("gemma2") && !is("gemma3_text")) return;
    layer.post_attention_norm = norm(h + "post_attention_layernorm");
    layer.post_mlp_norm = norm(h + "post_feedforward_layernorm");
  }

  void read_mlp(PlainLayer& layer, const std::string& mlp) {
    const int64_t width = parts().width, inner = size("intermediate_size");
    if (is("phi3")) {
      const PlainLinear both = linear(mlp + "gate_up_proj", 2 * inner, width);
      layer.gate = rows(both, 0, inner);
      layer.up = rows(both, inner, inner);
      layer.down = linear(mlp + "down_proj", width, inner);
      return;
    }
    const bool is_plain = is("arcee") || is("apertus") || is("starcoder2") || is("nanochat");
    if (!is_plain) layer.gate = linear(mlp + "gate_proj", inner, width);
    layer.up = linear(mlp + (is("starcoder2") ? "c_fc" : is("nanochat") ? "fc1" : "up_proj"), inner, width);
    layer.down = linear(mlp + (is("starcoder2") ? "c_proj" : is("nanochat") ? "fc2" : "down_proj"), width, inner);
  }
};

}  // namespace

std::unique_ptr<PlainModel::Parts> read_plain_parts(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  const nlohmann::json json = data::read_json_file(path, kMaxConfigBytes);
  Families reader(json, folder, path);
  reader.read();
  return reader.take();
}

}  // namespace heed::train
