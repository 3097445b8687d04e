// Sequences from one stationary Markov chain with random rows, whose exact distribution and entropies are known.
#pragma once

#include "data/synthetic/markov_chain.hpp"
#include "data/synthetic/synthetic_dataset.hpp"

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

class MarkovDataset : public SyntheticDataset {
 public:
  // Throws ConfigError with the key; MemoryError if the chain does not fit into memory; DataError if the random chain
  // has no usable stationary distribution.
  explicit MarkovDataset(const MarkovConfig& config);

  const MarkovChain& chain() const { return chain_; }

 private:
  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;

  MarkovChain chain_;
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

// The parameters of the chain of a source. Throws ConfigError with the key.
MarkovConfig markov_config(const NgramConfig& config);
MarkovConfig markov_config(const SkipConfig& config);

// Throws ConfigError with the key unless the table of V^(offsets.size() + 1) probabilities is within its limit and
// alpha fits.
void check_table(const MarkovConfig& config);

}  // namespace heed::data
