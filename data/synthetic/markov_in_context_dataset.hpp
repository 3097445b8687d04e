// In-context learning of Markov chains: every sequence has a different chain, which a model can only learn from the
// sequence itself. Source: Edelman et al. 2024, "The Evolution of Statistical Induction Heads: In-Context Learning
// Markov Chains" (arXiv 2402.11004).
//
//   x_0 uniform;  p(x_t | x_{t-1}) = row[x_{t-1}][x_t],  V rows drawn from Dir(alpha · uniform) for each sequence
//
// The rows are integrated out: a sequence is drawn token by token from the Bayes predictor, which is the same
// distribution as to draw the rows first (Pólya's urn; Blackwell and MacQueen 1973). After n_s occurrences of the
// current token s, n_sx of them followed by x:
//
//   p(x | past) = (n_sx + alpha / V) / (n_s + alpha)
//
// Reference losses: "uniform", ln V, exact; "unigram", (n_x + b / V) / (n + b) from the counts of all n tokens so far
// in any order, with the smoothing b of least mean loss; "bigram", the Bayes predictor. The last two are Monte-Carlo
// means over 2^14 sequences (2^21 tokens at most).
#pragma once

#include "data/synthetic/synthetic_dataset.hpp"

namespace heed::data {

struct MarkovInContextConfig {
  int64_t vocab_size = 8;
  double alpha = 1;   // concentration of each row
  uint32_t seed = 1;  // of the sequences
};

class MarkovInContextDataset final : public SyntheticDataset {
 public:
  static constexpr int64_t kMaxVocabSize = 1024;  // a sequence takes tables of V^2 and V · seq_len integers

  // Throws ConfigError with the key.
  explicit MarkovInContextDataset(const MarkovInContextConfig& config);

 private:
  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;
  double best_smoothing(int64_t seq_len) const;

  double alpha_;
};

}  // namespace heed::data
