// Modular addition, the task of grokking: a + b = c (mod p), of whose p^2 pairs (a, b) a part is for validation alone.
// A model first learns the training pairs by heart, and generalises much later. Source: Power et al. 2022, "Grokking:
// Generalization Beyond Overfitting on Small Algorithmic Datasets" (arXiv 2201.02177).
//
//   sequence  a b = c,  a, b, c in 0 … p - 1,  "=" is token p;  seq_len is 3, and only c is a target
//
// The pairs are shuffled by source_seed; the first round(val_fraction · p^2) are the validation split. Training draws
// uniformly from the other pairs, with replacement. The evaluation of a split has each of its pairs once; there is no
// test split. Reference losses: "uniform", ln p, a guess; "exact", 0.
#pragma once

#include "data/synthetic/synthetic_dataset.hpp"

namespace heed::data {

struct ModularAdditionConfig {
  int64_t modulus = 59;       // p
  double val_fraction = 0.5;  // 0: no validation split
  uint32_t seed = 1;          // of the sequences
  uint32_t source_seed = 1;   // of the split
};

class ModularAdditionDataset final : public SyntheticDataset {
 public:
  static constexpr int64_t kSeqLen = 3, kMaxModulus = 1024;

  // Throws ConfigError with the key, also if val_fraction leaves no pair to train on.
  explicit ModularAdditionDataset(const ModularAdditionConfig& config);

  // Throws ValueError unless seq_len is 3.
  int64_t num_eval_sequences(Split split, int64_t seq_len) const override;

 private:
  void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void draw_eval(Split split, const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const override;
  void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const override;
  std::vector<ContextEntropy> find_entropies(int64_t seq_len) const override;
  void write(int32_t pair, std::span<int32_t> tokens) const;

  int64_t modulus_;
  std::vector<int32_t> val_pairs_, train_pairs_;  // a · p + b
};

// Memory of the pairs in bytes.
inline int64_t modular_addition_bytes(int64_t modulus) { return 4 * modulus * modulus; }

}  // namespace heed::data
