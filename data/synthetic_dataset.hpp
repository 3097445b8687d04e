// Synthetic datasets: sequences from one stationary Markov chain with random rows, whose exact distribution and
// entropies are known.
//
// Every training sequence is new: its random numbers are those of (seed, step, row). The evaluation sequences
// of a split have a random site of their own, so that evaluation never uses the random numbers of training. A split has
// at least kMinEvalTargets evaluation targets.
#pragma once

#include "data/dataset.hpp"
#include "data/markov_chain.hpp"

namespace heed::data {

// Parameters of a chain with random rows.
struct MarkovConfig {
  int64_t vocab_size = 0;
  std::vector<int64_t> offsets;         // offsets back of the context tokens, in the order of the hierarchy of the rows
  std::vector<double> alpha;            // concentration per level (see hierarchical_dirichlet_rows), unigram first
  uint32_t seed = 0;                    // of the sequences
  std::optional<uint32_t> source_seed;  // of the rows; by default `seed`
  std::string depth;  // config key and value that define the offsets, for error messages: "data.order = 3"
};

class MarkovDataset : public Dataset {
 public:
  static constexpr int64_t kMinEvalTargets = 100'000;

  // Throws ConfigError with the key; MemoryError if the chain does not fit into memory; DataError if the random chain
  // has no usable stationary distribution.
  explicit MarkovDataset(const MarkovConfig& config);

  int64_t vocab_size() const override { return chain_.vocab_size(); }
  void train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  int64_t num_eval_sequences(Split split, int64_t seq_len) const override;
  void eval_sequence(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  std::optional<double> log_loss(std::span<const int32_t> inputs, std::span<const int32_t> targets) const override;
  std::vector<ContextEntropy> entropies(int64_t seq_len) const override;

  const MarkovChain& chain() const { return chain_; }

 private:
  void fill_sequence(const RandomStream& stream, int64_t row, std::span<int32_t> inputs,
                     std::span<int32_t> targets) const;

  MarkovChain chain_;
  uint32_t seed_;
};

// n-gram dataset: the next token depends on the previous order - 1 tokens. The transition rows are drawn from a
// hierarchical Dirichlet distribution, so that each longer context helps a little more than the previous one.
struct NgramConfig {
  int64_t order = 3;  // 1: independent tokens
  int64_t vocab_size = 32;
  std::vector<double> alpha = {32, 8, 4};  // `order` values, unigram first
  uint32_t seed = 1;                       // as in MarkovConfig
  std::optional<uint32_t> source_seed = {};
};

class NgramDataset final : public MarkovDataset {
 public:
  // Throws ConfigError with the key, also if vocab_size^(order - 1) > 2^20 or vocab_size^order > 2^25.
  explicit NgramDataset(const NgramConfig& config);
};

// Skip dataset: the next token depends on the tokens at given offsets back, such as x_{t-1}, x_{t-3}, x_{t-4}. The
// hierarchy of the rows has the offsets in the given order: the first one alone, then the first two …
struct SkipConfig {
  std::vector<int64_t> offsets;  // distinct, each at least 1
  int64_t vocab_size = 0;
  std::vector<double> alpha;  // offsets.size() + 1 values, unigram first
  uint32_t seed = 1;          // as in MarkovConfig
  std::optional<uint32_t> source_seed = {};
};

class SkipDataset final : public MarkovDataset {
 public:
  // Throws ConfigError with the key, also if vocab_size^max(offsets) > 2^20 or vocab_size^(offsets.size() + 1) > 2^25.
  explicit SkipDataset(const SkipConfig& config);
};

}  // namespace heed::data
