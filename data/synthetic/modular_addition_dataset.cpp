#include "data/synthetic/modular_addition_dataset.hpp"

#include <cmath>
#include <numeric>
#include <utility>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

// Fisher and Yates's shuffle.
std::vector<int32_t> shuffled(int64_t count, uint32_t seed) {
  std::vector<int32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  SequenceRandom random(synthetic_stream(seed, RandomPlace::rows, 0), 0);
  for (int64_t i = count - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
  return order;
}

}  // namespace

ModularAdditionDataset::ModularAdditionDataset(const ModularAdditionConfig& config)
    : SyntheticDataset(config.modulus + 1, config.seed, kSeqLen - 1), modulus_(config.modulus) {
  require<ConfigError>(2 <= modulus_ && modulus_ <= kMaxModulus, "data.modulus = {}, it must be 2 to {}", modulus_,
                       kMaxModulus);
  require<ConfigError>(0 <= config.val_fraction && config.val_fraction < 1,
                       "data.val_fraction = {}, it must be at least 0 and below 1", config.val_fraction);
  const int64_t count = modulus_ * modulus_;
  const int64_t validation = std::llround(config.val_fraction * static_cast<double>(count));
  require<ConfigError>(config.val_fraction == 0 || validation > 0,
                       "data.val_fraction = {} of the {} pairs is none for validation: raise it, or set it to 0",
                       config.val_fraction, count);
  require<ConfigError>(validation < count, "data.val_fraction = {} leaves none of the {} pairs to train on: lower it",
                       config.val_fraction, count);
  const std::vector<int32_t> order = shuffled(count, config.source_seed);
  val_pairs_.assign(order.begin(), order.begin() + validation);
  train_pairs_.assign(order.begin() + validation, order.end());
}

int64_t ModularAdditionDataset::num_eval_sequences(Split split, int64_t seq_len) const {
  require<ValueError>(seq_len == kSeqLen, "num_eval_sequences: seq_len = {}, it must be {}", seq_len, kSeqLen);
  if (split == Split::test) return 0;
  return static_cast<int64_t>((split == Split::train ? train_pairs_ : val_pairs_).size());
}

void ModularAdditionDataset::write(int32_t pair, std::span<int32_t> tokens) const {
  require<ShapeError>(tokens.size() == kSeqLen + 1, "modular_addition: seq_len = {}, it must be {}", tokens.size() - 1,
                      kSeqLen);
  const auto p = static_cast<int32_t>(modulus_);
  const int32_t a = pair / p, b = pair % p;
  tokens[0] = a;
  tokens[1] = b;
  tokens[2] = p;
  tokens[3] = (a + b) % p;
}

void ModularAdditionDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  const int64_t place = SequenceRandom(stream, row).below(static_cast<int64_t>(train_pairs_.size()));
  write(train_pairs_[place], tokens);
}

void ModularAdditionDataset::draw_eval(Split split, const RandomStream&, int64_t row, std::span<int32_t> tokens) const {
  write((split == Split::train ? train_pairs_ : val_pairs_)[row], tokens);
}

void ModularAdditionDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  for (size_t i = kSeqLen - 1; i < result.size(); ++i) {
    const bool is_sum = i == kSeqLen - 1 && tokens[3] == (tokens[0] + tokens[1]) % modulus_;
    result[i] = is_sum ? 0.0 : -INFINITY;
  }
}

std::vector<ContextEntropy> ModularAdditionDataset::find_entropies(int64_t) const {
  return {{{}, std::log(static_cast<double>(modulus_)), "uniform"}, {{}, 0.0, "exact"}};
}

}  // namespace heed::data
