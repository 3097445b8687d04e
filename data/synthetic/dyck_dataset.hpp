// Dyck language: well-nested brackets of k types, of limited depth. The type of a closing bracket is that of the last
// open one, which is any number of tokens before it.
//
//   token i < k opens a bracket of type i, token k + i closes it;  depth 0 before the first token
//   p(open) = 1 at depth 0, 0 at max_depth, else 1/2; the type of an opening bracket is uniform
//
// A sequence is a prefix of a word: brackets may be open at its end. All reference losses are exact, from the
// distribution of the depth at each position:
//
//   "unigram"  the mean probability of opening, any type
//   "depth"    knows the depth, and not the type of the bracket to close: H(p(open)) + ln k
//   "bayes"    knows the open brackets: H(p(open)) + p(open) ln k
#pragma once

#include "data/synthetic/synthetic_dataset.hpp"

namespace heed::data {

struct DyckConfig {
  int64_t num_brackets = 4;  // k
  int64_t max_depth = 8;
  uint32_t seed = 1;  // of the sequences
};

class DyckDataset final : public SyntheticDataset {
 public:
  static constexpr int64_t kMaxBrackets = 32'768, kMaxDepth = 65'536;

  // Throws ConfigError with the key.
  explicit DyckDataset(const DyckConfig& config);

 private:
  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;
  double open_probability(int64_t depth) const { return depth == 0 ? 1.0 : depth == max_depth_ ? 0.0 : 0.5; }

  int64_t num_brackets_, max_depth_;
};

}  // namespace heed::data
