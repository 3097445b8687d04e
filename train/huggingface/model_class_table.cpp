#include "train/huggingface/model_class.hpp"

namespace heed::train {
namespace {

using nn::Activation, nn::NormKind, nn::NormPosition;

constexpr TensorNames kGpt2Names{.token_embedding = "transformer.wte",
                                 .position_embedding = "transformer.wpe",
                                 .layer = "transformer.h.{}.",
                                 .attention_norm = "ln_1",
                                 .feed_forward_norm = "ln_2",
                                 .q = "attn.c_attn",
                                 .projection = "attn.c_proj",
                                 .up = "mlp.c_fc",
                                 .down = "mlp.c_proj",
                                 .last_norm = "transformer.ln_f"};

constexpr TensorNames kLlamaNames{.token_embedding = "model.embed_tokens",
                                  .layer = "model.layers.{}.",
                                  .attention_norm = "input_layernorm",
                                  .feed_forward_norm = "post_attention_layernorm",
                                  .q = "self_attn.q_proj",
                                  .k = "self_attn.k_proj",
                                  .v = "self_attn.v_proj",
                                  .projection = "self_attn.o_proj",
                                  .gate = "mlp.gate_proj",
                                  .up = "mlp.up_proj",
                                  .down = "mlp.down_proj",
                                  .last_norm = "model.norm"};

TensorNames openai_names() {
  TensorNames names = kGpt2Names;
  names.token_embedding = "transformer.tokens_embed";
  names.position_embedding = "transformer.positions_embed";
  names.last_norm = "";
  return names;
}

TensorNames with_qk_norm(TensorNames names) {
  names.q_norm = "self_attn.q_norm";
  names.k_norm = "self_attn.k_norm";
  return names;
}

TensorNames without_gate(TensorNames names, std::string_view up, std::string_view down) {
  names.gate = "";
  names.up = up;
  names.down = down;
  return names;
}

TensorNames phi3_names() {
  TensorNames names = without_gate(kLlamaNames, "mlp.gate_up_proj", "mlp.down_proj");
  names.q = "self_attn.qkv_proj";
  names.k = names.v = "";
  return names;
}

TensorNames apertus_names() {
  TensorNames names = without_gate(with_qk_norm(kLlamaNames), "mlp.up_proj", "mlp.down_proj");
  names.attention_norm = "attention_layernorm";
  names.feed_forward_norm = "feedforward_layernorm";
  return names;
}

TensorNames gemma_names(bool is_sandwich) {
  TensorNames names = kLlamaNames;
  names.feed_forward_norm = "pre_feedforward_layernorm";
  if (is_sandwich) names.post_attention_norm = "post_attention_layernorm";
  if (is_sandwich) names.post_feed_forward_norm = "post_feedforward_layernorm";
  return names;
}

TensorNames nanochat_names() {
  TensorNames names = without_gate(kLlamaNames, "mlp.fc1", "mlp.fc2");
  names.attention_norm = names.feed_forward_norm = names.last_norm = "";
  return names;
}

constexpr TensorNames kOptNames{.token_embedding = "model.decoder.embed_tokens",
                                .position_embedding = "model.decoder.embed_positions",
                                .layer = "model.decoder.layers.{}.",
                                .attention_norm = "self_attn_layer_norm",
                                .feed_forward_norm = "final_layer_norm",
                                .q = "self_attn.q_proj",
                                .k = "self_attn.k_proj",
                                .v = "self_attn.v_proj",
                                .projection = "self_attn.out_proj",
                                .up = "fc1",
                                .down = "fc2",
                                .last_norm = "model.decoder.final_layer_norm"};

TensorNames opt_post_names() {
  TensorNames names = kOptNames;
  names.last_norm = "";
  return names;
}

constexpr TensorNames kNeoxNames{.token_embedding = "gpt_neox.embed_in",
                                 .layer = "gpt_neox.layers.{}.",
                                 .attention_norm = "input_layernorm",
                                 .feed_forward_norm = "post_attention_layernorm",
                                 .q = "attention.query_key_value",
                                 .projection = "attention.dense",
                                 .up = "mlp.dense_h_to_4h",
                                 .down = "mlp.dense_4h_to_h",
                                 .last_norm = "gpt_neox.final_layer_norm",
                                 .head = "embed_out"};

constexpr TensorNames kMptNames{.token_embedding = "transformer.wte",
                                .layer = "transformer.blocks.{}.",
                                .attention_norm = "norm_1",
                                .feed_forward_norm = "norm_2",
                                .q = "attn.Wqkv",
                                .projection = "attn.out_proj",
                                .up = "ffn.up_proj",
                                .down = "ffn.down_proj",
                                .last_norm = "transformer.norm_f"};

constexpr TensorNames kBloomNames{.token_embedding = "transformer.word_embeddings",
                                  .embedding_norm = "transformer.word_embeddings_layernorm",
                                  .layer = "transformer.h.{}.",
                                  .attention_norm = "input_layernorm",
                                  .feed_forward_norm = "post_attention_layernorm",
                                  .q = "self_attention.query_key_value",
                                  .projection = "self_attention.dense",
                                  .up = "mlp.dense_h_to_4h",
                                  .down = "mlp.dense_4h_to_h",
                                  .last_norm = "transformer.ln_f"};

std::vector<ModelClass> absolute_classes() {
  const ModelClass gpt2{.model_type = "gpt2",
                        .architecture = "GPT2LMHeadModel",
                        .norm = NormKind::layer,
                        .is_gated = false,
                        .positions = ClassPositions::absolute,
                        .has_kv_heads = false,
                        .qkv = QkvLayout::stacked,
                        .is_transposed = true,
                        .names = kGpt2Names};
  ModelClass openai = gpt2;
  openai.model_type = "openai-gpt";
  openai.architecture = "OpenAIGPTLMHeadModel";
  openai.norm_position = NormPosition::post;
  openai.activations = {Activation::gelu, Activation::relu, Activation::silu};
  openai.has_fixed_d_ff = true;
  openai.names = openai_names();
  const ModelClass opt{.model_type = "opt",
                       .architecture = "OPTForCausalLM",
                       .norm = NormKind::layer,
                       .norm_position = NormPosition::post,
                       .is_gated = false,
                       .positions = ClassPositions::absolute,
                       .has_kv_heads = false,
                       .fixed_norm_eps = 1e-5,
                       .position_offset = 2,
                       .names = opt_post_names()};
  return {gpt2, openai, opt};
}

std::vector<ModelClass> llama_classes() {
  const ModelClass llama{
      .model_type = "llama", .architecture = "LlamaForCausalLM", .has_optional_biases = true, .names = kLlamaNames};
  ModelClass mistral = llama;
  mistral.model_type = "mistral";
  mistral.architecture = "MistralForCausalLM";
  mistral.windows = ClassWindows::same_in_all_layers;
  mistral.has_qkv_bias = mistral.has_projection_bias = mistral.has_mlp_bias = false;
  ModelClass qwen2 = llama;
  qwen2.model_type = "qwen2";
  qwen2.architecture = "Qwen2ForCausalLM";
  qwen2.windows = ClassWindows::by_layer;
  qwen2.has_projection_bias = qwen2.has_mlp_bias = qwen2.has_optional_biases = false;
  ModelClass qwen3 = llama;
  qwen3.model_type = "qwen3";
  qwen3.architecture = "Qwen3ForCausalLM";
  qwen3.windows = ClassWindows::by_layer;
  qwen3.has_qk_norm = true;
  qwen3.has_mlp_bias = false;
  qwen3.names = with_qk_norm(kLlamaNames);
  ModelClass phi3 = mistral;
  phi3.model_type = "phi3";
  phi3.architecture = "Phi3ForCausalLM";
  phi3.has_rope_scaling = false;
  phi3.has_rope_fraction = true;
  phi3.qkv = QkvLayout::stacked;
  phi3.names = phi3_names();
  ModelClass arcee = llama;
  arcee.model_type = "arcee";
  arcee.architecture = "ArceeForCausalLM";
  arcee.is_gated = false;
  arcee.names = without_gate(kLlamaNames, "mlp.up_proj", "mlp.down_proj");
  ModelClass apertus = arcee;
  apertus.model_type = "apertus";
  apertus.architecture = "ApertusForCausalLM";
  apertus.has_qk_norm = true;
  apertus.has_mlp_bias = false;
  apertus.names = apertus_names();
  return {llama, mistral, qwen2, qwen3, phi3, arcee, apertus};
}

std::vector<ModelClass> gemma_classes() {
  const ModelClass gemma2{.model_type = "gemma2",
                          .architecture = "Gemma2ForCausalLM",
                          .norm_position = NormPosition::sandwich,
                          .gain_is_offset = true,
                          .windows = ClassWindows::by_layer,
                          .has_softcap = true,
                          .has_mlp_bias = false,
                          .has_optional_biases = true,
                          .names = gemma_names(true)};
  ModelClass gemma3 = gemma2;
  gemma3.model_type = "gemma3_text";
  gemma3.architecture = "Gemma3ForCausalLM";
  gemma3.has_rope_scaling = false;  // its layers with a window have separate frequencies, without scaling
  gemma3.has_qk_norm = true;
  gemma3.names = with_qk_norm(gemma_names(true));
  ModelClass vault = gemma2;
  vault.model_type = "vaultgemma";
  vault.architecture = "VaultGemmaForCausalLM";
  vault.norm_position = NormPosition::pre;
  vault.names = gemma_names(false);
  const ModelClass nanochat{.model_type = "nanochat",
                            .architecture = "NanoChatForCausalLM",
                            .has_norm_gain = false,
                            .is_gated = false,
                            .rotates_backward = true,
                            .has_qk_norm = true,
                            .has_embedding_norm = true,
                            .has_softcap = true,
                            .has_mlp_bias = false,
                            .has_optional_biases = true,
                            .names = nanochat_names()};
  return {gemma2, gemma3, vault, nanochat};
}

std::vector<ModelClass> layer_norm_classes() {
  const ModelClass starcoder2{.model_type = "starcoder2",
                              .architecture = "Starcoder2ForCausalLM",
                              .norm = NormKind::layer,
                              .is_gated = false,
                              .windows = ClassWindows::same_in_all_layers,
                              .has_optional_biases = true,
                              .names = without_gate(kLlamaNames, "mlp.c_fc", "mlp.c_proj")};
  const ModelClass neox{.model_type = "gpt_neox",
                        .architecture = "GPTNeoXForCausalLM",
                        .norm = NormKind::layer,
                        .is_gated = false,
                        .has_rope_fraction = true,
                        .has_kv_heads = false,
                        .qkv = QkvLayout::by_head,
                        .names = kNeoxNames};
  const ModelClass stablelm{.model_type = "stablelm",
                            .architecture = "StableLmForCausalLM",
                            .norm = NormKind::layer,
                            .has_rope_fraction = true,
                            .has_qkv_bias = false,
                            .has_projection_bias = false,
                            .has_mlp_bias = false,
                            .names = kLlamaNames};
  const ModelClass mpt{.model_type = "mpt",
                       .architecture = "MptForCausalLM",
                       .norm = NormKind::layer,
                       .has_norm_bias = false,
                       .is_gated = false,
                       .activations = {Activation::gelu_erf},
                       .positions = ClassPositions::alibi,
                       .has_kv_heads = false,
                       .has_qkv_bias = false,
                       .has_projection_bias = false,
                       .has_mlp_bias = false,
                       .has_fixed_d_ff = true,
                       .qkv = QkvLayout::stacked,
                       .names = kMptNames};
  const ModelClass bloom{.model_type = "bloom",
                         .architecture = "BloomForCausalLM",
                         .norm = NormKind::layer,
                         .is_gated = false,
                         .activations = {Activation::gelu},
                         .positions = ClassPositions::alibi,
                         .has_kv_heads = false,
                         .has_embedding_norm = true,
                         .has_fixed_d_ff = true,
                         .qkv = QkvLayout::by_head,
                         .names = kBloomNames};
  return {starcoder2, neox, stablelm, mpt, bloom};
}

}  // namespace

std::span<const ModelClass> model_classes() {
  static const std::vector<ModelClass> classes = [] {
    std::vector<ModelClass> all;
    for (const auto& some : {absolute_classes(), llama_classes(), layer_norm_classes(), gemma_classes()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }();
  return classes;
}

}  // namespace heed::train
