// n-gram source: the next token depends on the order - 1 tokens before it. Rows are drawn from a hierarchical
// Dirichlet (data/dirichlet.hpp), so that each longer context helps a little more than the one before.
#pragma once

#include "data/markov_source.hpp"

namespace heed::data {

struct NgramConfig {
  int64_t order = 3;  // 1: independent tokens
  int64_t vocab_size = 32;
  std::vector<double> alpha = {32, 8, 4};  // order values, the unigram's first
  uint32_t seed = 1;
};

class NgramSource final : public MarkovSource {
 public:
  // Throws ConfigError naming the key; refuses vocab_size^(order - 1) > 2^20 and vocab_size^order > 2^25.
  explicit NgramSource(const NgramConfig& config);
};

}  // namespace heed::data
