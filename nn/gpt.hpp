// A causal language model: embeddings, Transformer blocks, final norm (not Post-LN), output head.
//   tokens i32 (B, T), T <= GptConfig::max_positions() -> logits (B, T, V)
// Positions: learned or sinusoidal (Vaswani et al. 2017) embeddings, RoPE (ops/rope.hpp) or ALiBi in attention, or
// none. With embedding_norm, a norm of the sum of token and position embedding (BERT; BLOOM without position
// embeddings). With tied embeddings the weight of the head is that of the token embedding. Initialisation as in GPT-2
// (Radford et al. 2019): normal with init_std, for the projections into the residual stream with init_std / sqrt(2 L),
// or sqrt(L) with attention_only, or 0; biases 0. Logit soft-capping, if any, is that of Gemma 2 (arXiv 2408.00118):
// logits = cap tanh(logits / cap).
// With muP (GptConfig::mup_base_width), m = GptConfig::width_multiplier(): the matrices of the blocks begin with a std
// 1 / sqrt(m) times that, the input of the head is divided by m, and attention scores are q k^T 8 / D.
#pragma once

#include <memory>
#include <vector>

#include "autograd/ops/linear_cross_entropy.hpp"
#include "nn/block.hpp"
#include "nn/position_table.hpp"

namespace heed::nn {

// drawn: random initialisation; zero: for weights that are loaded from a checkpoint; none: the parameters are declared
// only, to be counted.
enum class InitialWeights { drawn, zero, none };

class Gpt {
 public:
  // Throws ConfigError if a size is below 1 or the sizes are inconsistent.
  // span_multiple: see ParameterStore::build().
  Gpt(const GptConfig& config, DType dtype, Device device = Device::cpu,
      int64_t span_multiple = ParameterStore::kAlignment, InitialWeights weights = InitialWeights::drawn);

  Tensor logits(const Tensor& tokens, const ForwardContext& context) const;
  // The last norm (not Post-LN), the output head with the factor of muP, and the soft-capping: x (…, C), the residual
  // stream after the last block, -> logits (…, V). After an earlier block the result is the logit lens (nostalgebraist
  // 2020).
  Tensor head(const Tensor& x) const;
  // For generation: tokens i32 (B, T), T >= 1, continue the B sequences in the cache, which then holds T more rows of
  // each; tokens in the cache's padding are ignored. Returns the logits (B, V) of the next tokens: for each sequence
  // the last row of logits() for the whole of it. No dropout. Many tokens are processed in chunks of `chunk`, which
  // bounds the memory of activations. Throws GraphError unless called under NoGradGuard; ShapeError for tokens of
  // another shape, more rows than the cache or the model has positions for, or a sequence that is nothing but padding.
  // A cached sequence is one document: with a document_separator the caller starts again after it, with clear().
  static constexpr int64_t kPrefillChunk = 512;
  Tensor next_logits(const Tensor& tokens, KvCache& cache, int64_t chunk = kPrefillChunk) const;
  // Mean cross-entropy over the targets that are not -1. If `denominator` is above 0, their sum divided by
  // `denominator`: the number of targets of the whole training step, of which this batch is a part.
  // Computes the logits in chunks of rows (ops/linear_cross_entropy.hpp).
  Tensor loss(const Tensor& tokens, const Tensor& targets, const ForwardContext& context,
              DeviceScalar<double> denominator = 0) const;
  // Fuses loss() and backward(); the returned loss is not in the graph. Computes the logits once, where loss() and
  // backward() compute them twice.
  Tensor loss_and_backward(const Tensor& tokens, const Tensor& targets, const ForwardContext& context,
                           DeviceScalar<double> denominator = 0) const;
  // The per-token losses: f64 (B, T), 0 for targets of -1, without a gradient.
  Tensor losses(const Tensor& tokens, const Tensor& targets, const ForwardContext& context) const;

  // Activation checkpointing: each Transformer block saves only its input and is recomputed in backward.
  void set_recompute(bool on) { recompute_ = on; }

  const GptConfig& config() const { return config_; }
  const ParameterStore& parameters() const { return store_; }
  ParameterStore& parameters() { return store_; }

 private:
  Tensor embed(const Tensor& tokens, const ForwardContext& context) const;
  // x (B, T, C) plus the position embeddings; with a cache, the positions follow those in it.
  Tensor with_positions(const Tensor& x, const ForwardContext& context) const;
  Tensor run_blocks(Tensor x, const ForwardContext& context) const;
  // The residual stream (B, T, C) after the last block.
  Tensor residual_stream(const Tensor& tokens, const ForwardContext& context) const;
  // The input of the output matrix: x after the last norm and the output multiplier.
  Tensor head_input(const Tensor& x) const;
  const Tensor& head_weight() const;
  LinearCrossEntropyOptions loss_options(DeviceScalar<double> denominator) const;

  GptConfig config_;
  ParameterStore store_;
  Parameter token_embedding_, position_embedding_, head_;
  PositionTable sinusoids_, rotations_;
  std::unique_ptr<Norm> embedding_norm_;
  std::vector<Block> blocks_;
  std::unique_ptr<Norm> last_norm_;
  bool recompute_ = false;
};

// table[t, 2i] = sin(t / 10000^(2i/C)), table[t, 2i+1] = cos(t / 10000^(2i/C)); (rows, C), C = width.
Tensor sinusoidal_positions(int64_t rows, int64_t width, DType dtype);

}  // namespace heed::nn
