// Skip dataset: the next token depends on the tokens at given offsets back, such as x_{t-1}, x_{t-3}, x_{t-4}. The
// transition rows are drawn from a hierarchical Dirichlet distribution (data/dirichlet.hpp) over the offsets in the
// given order: the first one alone, then the first two …
#pragma once

#include "data/markov_source.hpp"

namespace heed::data {

struct SkipConfig {
  std::vector<int64_t> offsets;  // distinct, each at least 1
  int64_t vocab_size = 0;
  std::vector<double> alpha;  // offsets.size() + 1 values, unigram first
  uint32_t seed = 1;
};

class SkipSource final : public MarkovSource {
 public:
  // Throws ConfigError with the key, also if vocab_size^max(offsets) > 2^20 or vocab_size^(offsets.size() + 1) > 2^25.
  explicit SkipSource(const SkipConfig& config);
};

}  // namespace heed::data
