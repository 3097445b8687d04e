#include "train/config/config_keys.hpp"

namespace heed::train {

void add_model_keys(std::vector<KeySpec>& keys) {
  using nn::Activation, nn::GptConfig, nn::NormPosition, nn::Position;
  Table<GptConfig> model(keys, "model", &Config::model);
  model.add("num_layers", &GptConfig::num_layers, integer(1, 1024), "number of Transformer blocks");
  model.add("d_model", &GptConfig::d_model, integer(1, 65536), "width of the residual stream");
  model.add("num_heads", &GptConfig::num_heads, integer(1, 65536), "attention heads; must divide d_model");
  model
      .add("num_kv_heads", &GptConfig::num_kv_heads, integer(1, 65536),
           "key/value heads; must divide num_heads (fewer than num_heads: GQA, 1: MQA)")
      .default_is("num_heads");
  model.add("d_ff", &GptConfig::d_ff, integer(1, 1'048'576), "hidden width of the MLP").default_is("4 * d_model");
  model.add("seq_len", &GptConfig::seq_len, integer(1, 1'048'576), "tokens per sequence");
  model.add("norm_position", &GptConfig::norm_position,
            choice<NormPosition>({{"pre", NormPosition::pre}, {"post", NormPosition::post}}),
            "\"pre\": LayerNorm before each sublayer (GPT-2); \"post\": after the residual addition (Vaswani et al.)");
  model.add("norm_eps", &GptConfig::norm_eps, number(1e-12, 1), "epsilon that LayerNorm adds to the variance");
  model.add("activation", &GptConfig::activation,
            choice<Activation>({{"gelu", Activation::gelu}, {"relu", Activation::relu}}),
            "MLP activation; \"gelu\" is the tanh approximation");
  model.add("position", &GptConfig::position,
            choice<Position>({{"learned", Position::learned},
                              {"sinusoidal", Position::sinusoidal},
                              {"alibi", Position::alibi},
                              {"none", Position::none}}),
            "\"learned\", \"sinusoidal\": a position embedding, added to the token embedding; \"alibi\": a bias on the "
            "attention scores, linear in the distance (Press et al.)");
  model.add("sliding_window", &GptConfig::sliding_window, integer(0, 1'048'576),
            "a token attends to this many tokens, itself and those before it, as in Hugging Face; 0: to all before it");
  model.add("window_pattern", &GptConfig::window_pattern, letters("SL", 1024),
            "which layers have the sliding window, a letter for each layer, repeated: S (short) has it, L (long) not");
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
