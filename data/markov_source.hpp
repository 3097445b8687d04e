// Dataset of sequences from one stationary Markov chain, whose exact distribution and entropies are known.
//
// Every training sequence is new: its random numbers are those of (seed, update = step, row). The evaluation sequences
// of a split have a random site of their own, so that evaluation never uses the random numbers of training. A split has
// at least kMinEvalTargets evaluation targets.
#pragma once

#include "data/markov_chain.hpp"
#include "data/source.hpp"

namespace heed::data {

// Parameters of a chain with random rows.
struct MarkovConfig {
  int64_t vocab_size = 0;
  std::vector<int64_t> offsets;  // offsets back of the context tokens, in the order of the hierarchy of the rows
  std::vector<double> alpha;     // concentration per level (see hierarchical_dirichlet_rows), unigram first
  uint32_t seed = 0;
  std::string depth;  // config key and value that define the offsets, for error messages: "data.order = 3"
};

class MarkovSource : public Source {
 public:
  static constexpr int64_t kMinEvalTargets = 100'000;

  // Throws ConfigError with the key; MemoryError if the chain does not fit into memory; DataError if the random chain
  // has no usable stationary distribution.
  explicit MarkovSource(const MarkovConfig& config);

  int64_t vocab_size() const override { return chain_.vocab_size(); }
  void train_window(uint64_t step, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  int64_t num_eval_windows(Split split, int64_t seq_len) const override;
  void eval_window(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  std::optional<double> log_loss(std::span<const int32_t> inputs, std::span<const int32_t> targets) const override;
  std::vector<ContextEntropy> entropies(int64_t seq_len) const override;

  const MarkovChain& chain() const { return chain_; }

 private:
  void fill_window(const RandomStream& stream, int64_t row, std::span<int32_t> inputs,
                   std::span<int32_t> targets) const;

  MarkovChain chain_;
  uint32_t seed_;
};

}  // namespace heed::data
