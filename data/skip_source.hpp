// Skip source: the next token depends on the tokens at chosen offsets back, such as x_{t-1}, x_{t-3}, x_{t-4}. Rows are
// drawn from a hierarchical Dirichlet (data/dirichlet.hpp) over the offsets in their given order: the first one alone,
// then the first two …
#pragma once

#include "data/markov_source.hpp"

namespace heed::data {

struct SkipConfig {
  std::vector<int64_t> offsets;  // distinct, at least 1 each
  int64_t vocab_size = 0;
  std::vector<double> alpha;  // one value more than offsets, the unigram's first
  uint32_t seed = 1;
};

class SkipSource final : public MarkovSource {
 public:
  // Throws ConfigError naming the key; refuses vocab_size^max(offsets) > 2^20 and vocab_size^(offsets + 1) > 2^25.
  explicit SkipSource(const SkipConfig& config);
};

}  // namespace heed::data
