#include "train/huggingface/plain_limits.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

using data::JsonObject;
using nlohmann::json;

constexpr int64_t kLargest = int64_t{1} << 31;

class Limits {
 public:
  explicit Limits(const JsonObject& config) : config_(config), type_(config.text("model_type")) {}

  void check() const {
    check_sizes();
    check_variants();
    check_caps();
    check_windows();
    check_rope();
  }

 private:
  template <class... Names>
  bool is(Names... names) const {
    return ((type_ == names) || ...);
  }
  bool is_gemma() const { return is("gemma2", "gemma3_text", "vaultgemma"); }

  void refuse_unless(bool condition, const std::string& key, const std::string& allowed) const {
    const auto found = config_.json().find(key);
    require<DataError>(condition, "{}: {} with {} = {} is not supported by heed; it must be {}", config_.where(), type_,
                       key, found == config_.json().end() ? "(missing)" : found->dump(), allowed);
  }
  void must_be(const std::string& key, const json& value) const {
    refuse_unless(!config_.has(key) || config_.json().at(key) == value, key, value.dump() + " or missing");
  }
  void must_be_null(const std::string& key) const { refuse_unless(!config_.has(key), key, "null or missing"); }
  // For keys with a default in transformers that heed does not mean.
  void must_be_there(const std::string& key) const { refuse_unless(config_.json().contains(key), key, "there"); }

  void check_sizes() const {
    const bool is_gpt = is("gpt2", "openai-gpt");
    const std::string width_key = is_gpt ? "n_embd" : is("mpt") ? "d_model" : "hidden_size";
    const std::string heads_key = is_gpt || is("bloom") ? "n_head" : is("mpt") ? "n_heads" : "num_attention_heads";
    const int64_t width = config_.integer(width_key, 1, kLargest), heads = config_.integer(heads_key, 1, kLargest);
    refuse_unless(width % heads == 0, heads_key, fmt::format("a divisor of {} = {}", width_key, width));
    const int64_t kv_heads = config_.integer_or("num_key_value_heads", 1, kLargest, heads);
    refuse_unless(heads % kv_heads == 0, "num_key_value_heads", fmt::format("a divisor of {} = {}", heads_key, heads));
    if (is("starcoder2", "mistral", "stablelm") || is_gemma()) must_be_there("num_key_value_heads");
    if (is("qwen3") || is_gemma()) must_be_there("head_dim");
    must_be("head_dim", width / heads);
    must_be("n_embed", width);
  }

  void check_variants() const {
    must_be("scale_attn_weights", true);
    must_be("scale_attn_by_inverse_layer_idx", false);
    must_be("add_cross_attention", false);
    must_be("layer_norm_elementwise_affine", true);
    must_be("_remove_final_layer_norm", false);
    if (config_.has("word_embed_proj_dim")) must_be("word_embed_proj_dim", config_.json().at("hidden_size"));
    must_be("apply_residual_connection_post_layernorm", false);
    must_be("use_bidirectional_attention", false);
    must_be("qk_layernorm", false);
    if (is("gpt_neox")) must_be_there("use_parallel_residual");
    must_be("use_parallel_residual", false);
    if (!config_.has("attn_config")) return;
    const JsonObject attention = config_.object("attn_config");
    for (const char* key : {"clip_qkv", "softmax_scale"}) {
      require<DataError>(!attention.has(key), "{}: {} is not supported by heed; it must be null or missing",
                         attention.where(), key);
    }
  }

  void check_caps() const {
    if (is("gemma2", "vaultgemma")) must_be_there("attn_logit_softcapping");
    if (is("gemma2", "vaultgemma", "nanochat")) must_be_there("final_logit_softcapping");
    must_be_null("attn_logit_softcapping");
    if (!is_gemma() && !is("nanochat")) must_be_null("final_logit_softcapping");
    if (config_.has("final_logit_softcapping")) {
      refuse_unless(config_.number("final_logit_softcapping") > 0, "final_logit_softcapping", "over 0, or null");
    }
    if (is_gemma()) {
      refuse_unless(config_.number("query_pre_attn_scalar") > 0, "query_pre_attn_scalar", "over 0");
    }
  }

  // transformers reads sliding_window in these classes only, and layer_types in some of them.
  void check_windows() const {
    const bool in_all_layers = is("mistral", "starcoder2", "phi3");
    const bool by_layer = is("qwen2", "qwen3") || is_gemma();
    if (is("mistral") || is_gemma()) must_be_there("sliding_window");
    if (!in_all_layers && !by_layer) {
      must_be_null("sliding_window");
      return;
    }
    if (is_gemma() || (is("qwen2", "qwen3") && config_.has("sliding_window"))) {
      refuse_unless(config_.has("layer_types"), "layer_types", "a list with one entry for each layer");
    }
    if (is("qwen2", "qwen3") && config_.has("sliding_window")) {
      refuse_unless(config_.flag_or("use_sliding_window", false), "use_sliding_window", "true with a sliding_window");
    }
    if (!config_.has("layer_types")) return;
    const json& types = config_.list("layer_types");
    const int64_t layers = config_.integer("num_hidden_layers", 1, kLargest);
    refuse_unless(static_cast<int64_t>(types.size()) == layers, "layer_types",
                  fmt::format("a list of {} entries", layers));
    const bool has_window = config_.has("sliding_window");
    for (const json& type : types) {
      const bool slides = type == "sliding_attention";
      refuse_unless(slides || type == "full_attention", "layer_types", "full_attention or sliding_attention");
      refuse_unless(!slides || has_window, "layer_types", "full_attention without sliding_window");
      refuse_unless(slides || !in_all_layers || !has_window, "layer_types",
                    "sliding_attention in all layers, as in transformers");
    }
  }

  bool has_sliding_layer() const {
    if (!config_.has("layer_types")) return false;
    const json& types = config_.list("layer_types");
    return std::find(types.begin(), types.end(), json("sliding_attention")) != types.end();
  }

  void check_rope() const {
    if (is("gpt2", "openai-gpt", "opt", "mpt", "bloom")) return;
    const bool is_neox = is("gpt_neox");
    const char* theta = is_neox ? "rotary_emb_base" : "rope_theta";
    refuse_unless(config_.number(theta) > 0, theta, "over 0");
    const std::string part = is_neox ? "rotary_pct" : "partial_rotary_factor";
    if (is("stablelm", "gpt_neox")) must_be_there(part);
    const double fraction = config_.number_or(part, 1);
    const bool rotates_a_part = is("phi3", "stablelm", "gpt_neox");
    refuse_unless(fraction > 0 && fraction <= 1 && (rotates_a_part || fraction == 1), part,
                  rotates_a_part ? "from 0 to 1" : "1 or missing");
    const int64_t head_size =
        config_.integer("hidden_size", 1, kLargest) / config_.integer("num_attention_heads", 1, kLargest);
    const auto columns = static_cast<int64_t>(fraction * static_cast<double>(head_size));
    require<DataError>(columns > 0 && columns % 2 == 0,
                       "{}: {} columns of a head are rotated, it must be an even number", config_.where(), columns);
    if (is("phi3")) must_be_null("rope_scaling");
    if (config_.has("rope_scaling")) {
      const JsonObject scaling = config_.object("rope_scaling");
      for (const char* key : {"rope_theta", "partial_rotary_factor"}) {
        require<DataError>(!scaling.has(key), "{}: {} must be outside", scaling.where(), key);
      }
    }
    if (is("gemma3_text") && has_sliding_layer()) {
      must_be_there("rope_local_base_freq");
      must_be("rope_local_base_freq", config_.json().at("rope_theta"));
      must_be_null("rope_scaling");
    }
    // Without both keys apertus has the llama3 scaling and the theta of its checkpoints, whatever rope_theta is.
    if (is("apertus") && !config_.has("rope_scaling")) {
      refuse_unless(config_.has("rope_parameters"), "rope_parameters", "there if rope_scaling is not");
    }
    must_agree(theta, fraction);
  }

  // rope_parameters, the key of transformers 5, with those of transformers 4.
  void must_agree(const char* theta, double fraction) const {
    if (!config_.has("rope_parameters")) return;
    const JsonObject all = config_.object("rope_parameters");
    const json scaling = config_.has("rope_scaling") ? config_.json().at("rope_scaling") : json::object();
    const auto check = [&](const JsonObject& one) {
      const auto refuse = [&](const std::string& key) {
        throw DataError(fmt::format("{}: {} differs from the keys of transformers 4 (rope_scaling and {})", one.where(),
                                    key, theta));
      };
      if (one.number_or("rope_theta", config_.number(theta)) != config_.number(theta)) refuse("rope_theta");
      if (one.number_or("partial_rotary_factor", fraction) != fraction) refuse("partial_rotary_factor");
      if (one.text_or("rope_type", "default") != scaling.value("rope_type", "default")) refuse("rope_type");
      for (const auto& [key, value] : one.json().items()) {
        if (key == "rope_theta" || key == "partial_rotary_factor" || key == "rope_type") continue;
        if (!scaling.contains(key) || scaling.at(key) != value) refuse(key);
      }
    };
    if (!is("gemma3_text")) return check(all);
    for (const char* kind : {"full_attention", "sliding_attention"}) {
      if (all.has(kind)) check(all.object(kind));
    }
  }

  const JsonObject& config_;
  std::string type_;
};

}  // namespace

void refuse_what_plain_model_lacks(const JsonObject& config) { Limits(config).check(); }

}  // namespace heed::train
