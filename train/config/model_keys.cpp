#include "train/config/config_keys.hpp"

namespace heed::train {

void add_model_keys(std::vector<KeySpec>& keys) {
  using nn::Activation, nn::GptConfig, nn::NormKind, nn::NormPosition, nn::Position, nn::RopeScaling;
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
      .default_is("4 * d_model; swiglu and geglu: 8/3 * d_model rounded up, to a multiple of 64 if d_model >= 64")
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
           choice<Activation>({{"gelu", Activation::gelu},
                               {"gelu_erf", Activation::gelu_erf},
                               {"relu", Activation::relu},
                               {"relu2", Activation::relu2},
                               {"silu", Activation::silu},
                               {"swiglu", Activation::swiglu},
                               {"geglu", Activation::geglu}}),
           "MLP activation; \"gelu\" is the tanh approximation, \"gelu_erf\" the exact GELU, \"relu2\" the square of "
           "ReLU; \"swiglu\" (silu) and \"geglu\" (gelu) have a gate, for which the first layer has 2 d_ff outputs")
      .unless("model.attention_only");
  model.add(
      "position", &GptConfig::position,
      choice<Position>({{"learned", Position::learned},
                        {"sinusoidal", Position::sinusoidal},
                        {"rope", Position::rope},
                        {"alibi", Position::alibi},
                        {"none", Position::none}}),
      "\"learned\", \"sinusoidal\": a position embedding, added to the token embedding; \"rope\": queries and keys are "
      "rotated (Su et al.); \"alibi\": a bias on the attention scores, linear in the distance (Press et al.)");
  model
      .add("rope_base", &GptConfig::rope_base, number(1, 1e12),
           "base of the frequencies of RoPE: base^(-2i/R), R the rotated columns of a head")
      .only_with("model.position", {"rope"});
  model
      .add("rope_fraction", &GptConfig::rope_fraction, number(1e-4, 1),
           "share of the columns of each head that RoPE rotates, the first ones; they must be an even number")
      .only_with("model.position", {"rope"});
  model
      .add("rope_scaling", &GptConfig::rope_scaling,
           choice<RopeScaling>(
               {{"none", RopeScaling::none}, {"linear", RopeScaling::linear}, {"llama3", RopeScaling::llama3}}),
           "scaling of RoPE to longer sequences; \"linear\": positions are divided by a factor; \"llama3\": only low "
           "frequencies are scaled, as in Llama 3.1")
      .only_with("model.position", {"rope"});
  model
      .add("rope_scaling_factor", &GptConfig::rope_scaling_factor, number(1, 1e6),
           "how many times longer sequences the scaling is for")
      .only_with("model.rope_scaling", {"linear", "llama3"})
      .required();
  model
      .add("rope_original_seq_len", &GptConfig::rope_original_seq_len, integer(1, 1'048'576),
           "sequence length before the scaling, to which wavelengths are compared")
      .only_with("model.rope_scaling", {"llama3"});
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
  model.add("logit_softcap", &GptConfig::logit_softcap, number_or_zero(1e-3, 1e6),
            "soft-capping of the logits as in Gemma 2, cap * tanh(logits / cap); 0: off");
  model.add("init_std", &GptConfig::init_std, number(1e-6, 10), "standard deviation of the initial weights");
  model.add("mup_base_width", &GptConfig::mup_base_width, integer(0, 65536),
            "muP (Yang et al.): the d_model for which init_std and learning_rate were tuned; initial weights, learning "
            "rates, output head and attention scores are scaled from it to d_model; 0: off");
  model.add(
      "zero_init_projections", &GptConfig::zero_init_projections, boolean(),
      "the projections into the residual stream (attention.projection, feed_forward.down) begin at 0, so that each "
      "block begins as the identity");
  model.add("seed", &GptConfig::seed, seed_number(), "random seed of weight initialisation").default_is("seed");
}

}  // namespace heed::train
