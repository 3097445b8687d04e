// A causal language model: embeddings, blocks, a last norm (Pre-LN only), the head.
//   tokens i32 (B, T), T <= seq_len -> logits (B, T, V)
// Positions: learned, sinusoidal (Vaswani et al. 2017) or none. The head is the embedding itself where tied.
// Initial weights as in GPT-2 (Radford et al. 2019): normal with init_std, projections into the residual stream with
// init_std / sqrt(2 L), biases 0.
#pragma once

#include <memory>
#include <vector>

#include "nn/block.hpp"

namespace heed::nn {

// zero: for weights that are loaded from a checkpoint.
enum class InitialWeights { drawn, zero };

class Gpt {
 public:
  // Throws ConfigError where the sizes do not fit together.
  // span_multiple: see ParameterStore::build().
  Gpt(const GptConfig& config, DType dtype, Device device = Device::cpu,
      int64_t span_multiple = ParameterStore::kAlignment, InitialWeights weights = InitialWeights::drawn);

  Tensor logits(const Tensor& tokens, const ForwardContext& context) const;
  // For generation: tokens i32 (1, T), T >= 1, follow those that the cache holds, which are then T more. Gives the
  // logits (1, V) of the token after the last, those of the last row of logits() for the whole sequence. Without
  // dropout, and under NoGradGuard only: GraphError else. ShapeError where more than seq_len tokens come together.
  Tensor next_logits(const Tensor& tokens, KvCache& cache) const;
  // Mean cross-entropy over the targets that are not -1, or their sum divided by `denominator` where that is above 0:
  // the number of targets of the whole update, of which this batch is a part.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const ForwardContext& context, double denominator = 0) const;
  // The same with a denominator that stands in the memory of a CUDA device.
  Tensor loss(const Tensor& tokens, const Tensor& targets, const ForwardContext& context,
              const double* device_denominator) const;

  // Blocks keep only their input and run again in backward.
  void set_recompute(bool on) { recompute_ = on; }

  const GptConfig& config() const { return config_; }
  const ParameterStore& parameters() const { return store_; }
  ParameterStore& parameters() { return store_; }
  // Weights that multiply each token: those of the linear layers and the head (tied or not), not the embeddings.
  int64_t gemm_weights() const;

 private:
  Tensor embed(const Tensor& tokens, const ForwardContext& context) const;
  Tensor run_blocks(Tensor x, const ForwardContext& context) const;
  Tensor head(const Tensor& x) const;

  GptConfig config_;
  ParameterStore store_;
  Parameter token_embedding_, position_embedding_, head_;
  Tensor sinusoids_;  // (seq_len, C), a constant
  std::vector<Block> blocks_;
  std::unique_ptr<LayerNorm> last_norm_;
  bool recompute_ = false;
};

// sinusoids[t, 2i] = sin(t / 10000^(2i/C)), sinusoids[t, 2i+1] = cos of the same.
Tensor sinusoidal_positions(int64_t seq_len, int64_t width, DType dtype);

}  // namespace heed::nn
