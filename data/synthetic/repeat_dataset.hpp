// Copying of random tokens, which induction heads solve: a block of S uniform random tokens is repeated to the end of
// the sequence. S is drawn for each sequence, so that the position alone does not say what to copy. Source: the
// repeated random tokens of Olsson et al. 2022, "In-context Learning and Induction Heads" (arXiv 2209.11895).
//
//   S uniform in min_period … max_period;  x_t uniform in 0 … V - 1 for t < S;  x_t = x_{t-S} for t >= S
//
// The Bayes predictor weighs every period S by its posterior, starting from the uniform distribution over S:
//
//   p(x | past) = sum over S of w_S p_S(x),  p_S = 1 / V for t < S, else 1 where x = x_{t-S};  w_S <- w_S p_S(x_t) /
//   p(x_t)
//
// Reference losses: "uniform", ln V, exact; "bayes", a Monte-Carlo mean over at most 2^14 sequences (2^20 tokens).
#pragma once

#include "data/synthetic/synthetic_dataset.hpp"

namespace heed::data {

struct RepeatConfig {
  int64_t vocab_size = 32;
  int64_t min_period = 8;
  int64_t max_period = 16;
  uint32_t seed = 1;  // of the sequences
};

class RepeatDataset final : public SyntheticDataset {
 public:
  static constexpr int64_t kMaxPeriod = 65'536;

  // Throws ConfigError with the key.
  explicit RepeatDataset(const RepeatConfig& config);

 private:
  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;

  int64_t min_period_, max_period_;
};

}  // namespace heed::data
