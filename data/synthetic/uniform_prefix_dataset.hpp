// Markov rows after a uniform prefix: the first max(offsets) tokens are uniform random tokens, every later one is drawn
// from its row.
//
//   p(x_t | past) = 1 / V for t < max(offsets), else rows[r][x_t], r = sum over j of x_{t - offsets[j]} · V^j
//
// In contrast to MarkovDataset (a sample of the stationary chain) no stationary distribution over the V^max(offsets)
// states is needed, so that the offsets may be far apart, such as 2, 7, 15, 31. The only limit is the table of
// V^(number of offsets + 1) probabilities, at most MarkovChain::kMaxTableEntries, of 16 bytes each. The rows are drawn
// as for MarkovDataset.
//
// Reference losses: "k-offset" for each k below the number of offsets knows the tokens at the first k offsets alone,
// and predicts with the mean row over the other tokens. That mean is estimated from half of the Monte-Carlo sequences
// and its loss measured on the other half, 2^19 targets, so that the estimation errs upwards. "bayes" is the exact
// predictor, on the same targets.
#pragma once

#include "data/synthetic/markov_dataset.hpp"

namespace heed::data {

class UniformPrefixDataset final : public SyntheticDataset {
 public:
  // Throws ConfigError with the key; MemoryError if the table does not fit into memory.
  explicit UniformPrefixDataset(const NgramConfig& config);
  explicit UniformPrefixDataset(const SkipConfig& config);

 private:
  explicit UniformPrefixDataset(const MarkovConfig& config);

  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;

  // The row of tokens[t] by its first num_offsets offsets; t >= max(offsets).
  int64_t context_of(std::span<const int32_t> tokens, int64_t t, size_t num_offsets) const;
  std::vector<double> mean_rows(int64_t seq_len, size_t num_offsets, int64_t num_sequences) const;

  std::vector<int64_t> offsets_;
  int64_t prefix_ = 0;  // max(offsets)
  std::vector<double> rows_, row_cumulative_;
};

// Memory of the table in bytes, with its cumulative sums, and of the mean tables of shorter contexts.
int64_t uniform_prefix_bytes(int64_t vocab_size, int64_t num_offsets);

}  // namespace heed::data
