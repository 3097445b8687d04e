// n-gram dataset: the next token depends on the previous order - 1 tokens. The transition rows are drawn from a
// hierarchical Dirichlet distribution (data/dirichlet.hpp), so that each longer context helps a little more than the
// previous one.
#pragma once

#include "data/markov_source.hpp"

namespace heed::data {

struct NgramConfig {
  int64_t order = 3;  // 1: independent tokens
  int64_t vocab_size = 32;
  std::vector<double> alpha = {32, 8, 4};  // `order` values, unigram first
  uint32_t seed = 1;
};

class NgramSource final : public MarkovSource {
 public:
  // Throws ConfigError with the key, also if vocab_size^(order - 1) > 2^20 or vocab_size^order > 2^25.
  explicit NgramSource(const NgramConfig& config);
};

}  // namespace heed::data
