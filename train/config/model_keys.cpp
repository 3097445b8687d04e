#include "train/config/config_keys.hpp"

namespace heed::train {

void add_model_keys(std::vector<KeySpec>& keys) {
  using nn::Activation, nn::GptConfig, nn::NormKind, nn::NormPosition, nn::Position;
  Table<GptConfig> model(keys, "model", &Config::model);
  model.add("num_layers", &GptConfig::num_layers, integer(1, 1024), "number of Transformer blocks");
  model.add("d_model", &GptConfig::d_model, integer(1, 65536), "width of the residual stream");
  model.add("num_heads", &GptConfig::num_heads, integer(1, 65536), "attention heads; must divide d_model");
  model
      .add("num_kv_heads", &GptConfig::num_kv_heads, integer(1, 65536),
           "key/value heads; must divide num_heads (fewer than num_heads: GQA, 1: MQA)")
      .default_is("num_heads");
  model.add("attention_only", &GptConfig::attention_only, boolean(), "Transformer blocks have attention, but no MLP");
  model.add("d_ff", &GptConfig::d_ff, integer(1, 1'048'576), "hidden width of the MLP")
      .default_is("4 * d_model")
      .unless("model.attention_only");
  model.add("seq_len", &GptConfig::seq_len, integer(1, 1'048'576), "tokens per sequence");
  model.add("norm", &GptConfig::norm, choice<NormKind>({{"layer", NormKind::layer}, {"rms", NormKind::rms}}),
            "\"layer\": LayerNorm; \"rms\": RMSNorm (Zhang and Sennrich), without a bias");
  model.add("norm_gain", &GptConfig::norm_gain, boolean(),
            "norms have a gain, and LayerNorm a bias if model.bias (false: elementwise_affine=False in PyTorch)");
  model.add("norm_position", &GptConfig::norm_position,
            choice<NormPosition>(
                {{"pre", NormPosition::pre}, {"post", NormPosition::post}, {"sandwich", NormPosition::sandwich}}),
            "\"pre\": norm before each sublayer (GPT-2); \"post\": after the residual addition (Vaswani et al.); "
            "\"sandwich\": before it and on its output (Gemma 2)");
  model.add("qk_norm", &GptConfig::qk_norm, boolean(),
            "RMSNorm of each query and key head before attention, gains shared by the heads (Qwen3)");
  model.add("embedding_norm", &GptConfig::embedding_norm, boolean(),
            "a norm of the embedding, before the first block (BLOOM, BERT)");
  model.add("norm_eps", &GptConfig::norm_eps, number(1e-12, 1),
            "epsilon that the norm adds to the variance (RMSNorm: to the mean square)");
  model
      .add("activation", &GptConfig::activation,
           choice<Activation>({{"gelu", Activation::gelu}, {"relu", Activation::relu}}),
           "MLP activation; \"gelu\" is the tanh approximation")
      .unless("model.attention_only");
  model.add("position", &GptConfig::position,
            choice<Position>(
                {{"learned", Position::learned}, {"sinusoidal", Position::sinusoidal}, {"none", Position::none}}),
            "position embedding, added to the token embedding");
  // p = 1, or a p that rounds to 1, would drop every element.
  model.add("dropout", &GptConfig::dropout, number(0, 0.99), "dropout probability on embeddings and residual branches");
  model.add("attention_dropout", &GptConfig::attention_dropout, number(0, 0.99),
            "dropout probability of the attention probabilities");
  model.add("bias", &GptConfig::bias, boolean(), "linear layers and LayerNorm have a bias");
  model.add("tie_embeddings", &GptConfig::tie_embeddings, boolean(),
            "tie the output projection (lm_head) to the token embedding");
  model.add("init_std", &GptConfig::init_std, number(1e-6, 10), "standard deviation of the initial weights");
  model.add("seed", &GptConfig::seed, seed_number(), "random seed of weight initialisation").default_is("seed");
}

}  // namespace heed::train
