// Addition of decimal numbers: a + b = c. c has its digits in the order in which they can be computed, the least
// significant first (Lee et al. 2023, "Teaching Arithmetic to Small Transformers", arXiv 2307.03381).
//
//   sequence  a + b = c  of 3 n + 3 tokens: a and b with n digits, the most significant first; c with n + 1 digits, the
//   least significant first. Digits are tokens 0 … 9, "+" is 10, "=" is 11. seq_len is 3 n + 2, and only the digits of
//   c are targets.
//
// a and b are uniform in 0 … 10^n - 1. A hash of the pair and source_seed puts a fraction val_fraction of all pairs
// into the validation split; training draws from the others alone. There is no test split. Reference losses, exact for
// a mean over all pairs:
//
//   "uniform"   ln 10 for each digit, and the entropy of the last carry, q_n = (1 - 10^-n) / 2
//   "no-carry"  knows the sum of the two digits, not the carry into them: the entropy of the carry into digit i,
//               q_i = (1 - 10^-i) / 2; for the last digit that matters only where the sum is 9
//   "exact"     0
#pragma once

#include "data/synthetic/synthetic_dataset.hpp"

namespace heed::data {

struct AdditionConfig {
  int64_t digits = 3;         // n
  double val_fraction = 0.1;  // 0: no validation split
  uint32_t seed = 1;          // of the sequences
  uint32_t source_seed = 1;   // of the split
};

class AdditionDataset final : public SyntheticDataset {
 public:
  static constexpr int64_t kVocabSize = 12, kMaxDigits = 9;
  static constexpr double kMinValFraction = 0.001, kMaxValFraction = 0.9;
  static constexpr int64_t seq_len_of(int64_t digits) { return 3 * digits + 2; }

  // Throws ConfigError with the key, also if one of the two splits of a small n has no pair.
  explicit AdditionDataset(const AdditionConfig& config);

  // Throws ValueError unless seq_len is 3 n + 2.
  int64_t num_eval_sequences(Split split, int64_t seq_len) const override;

 private:
  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void draw_eval(Split split, const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;
  bool is_validation(int64_t a, int64_t b) const;
  void check_splits() const;

  int64_t digits_, limit_;  // limit_ = 10^n
  double val_fraction_;
  uint32_t source_seed_;
};

}  // namespace heed::data
