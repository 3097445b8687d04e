#include "data/synthetic/addition_dataset.hpp"

#include <algorithm>
#include <cmath>

#include "autograd/core/check.hpp"
#include "data/synthetic/markov_chain.hpp"

namespace heed::data {

namespace {

constexpr int32_t kPlus = 10, kEquals = 11;

double binary_entropy(double p) { return p <= 0 || p >= 1 ? 0.0 : -p * std::log(p) - (1 - p) * std::log(1 - p); }

// The probability of a carry out of the lowest `digits` digits.
double carry_probability(int64_t digits) { return (1 - std::pow(10.0, static_cast<double>(-digits))) / 2; }

// Writes a + b = c.
void write(int64_t a, int64_t b, int64_t digits, std::span<int32_t> tokens) {
  int64_t c = a + b;
  const int64_t second = digits + 1, sum = 2 * digits + 2;
  for (int64_t i = digits - 1; i >= 0; --i, a /= 10, b /= 10) {
    tokens[i] = static_cast<int32_t>(a % 10);
    tokens[second + i] = static_cast<int32_t>(b % 10);
  }
  tokens[digits] = kPlus;
  tokens[sum - 1] = kEquals;
  for (int64_t i = 0; i <= digits; ++i, c /= 10) tokens[sum + i] = static_cast<int32_t>(c % 10);
}

}  // namespace

AdditionDataset::AdditionDataset(const AdditionConfig& config)
    : SyntheticDataset(kVocabSize, config.seed, 2 * config.digits + 1),
      digits_(config.digits),
      val_fraction_(config.val_fraction),
      source_seed_(config.source_seed) {
  require<ConfigError>(1 <= digits_ && digits_ <= kMaxDigits, "data.digits = {}, it must be 1 to {}", digits_,
                       kMaxDigits);
  require<ConfigError>(val_fraction_ == 0 || (kMinValFraction <= val_fraction_ && val_fraction_ <= kMaxValFraction),
                       "data.val_fraction = {}, with data.source = \"addition\" it must be 0 or {} to {}",
                       val_fraction_, kMinValFraction, kMaxValFraction);
  limit_ = bounded_power(10, digits_, INT64_MAX - 1);
  if (val_fraction_ > 0 && digits_ <= 2) check_splits();
}

// From three digits on, each split has hundreds of pairs; below, the hash may leave one of them empty.
void AdditionDataset::check_splits() const {
  int64_t validation = 0;
  for (int64_t a = 0; a < limit_; ++a) {
    for (int64_t b = 0; b < limit_; ++b) validation += is_validation(a, b) ? 1 : 0;
  }
  require<ConfigError>(
      0 < validation && validation < limit_ * limit_,
      "data.val_fraction = {} puts {} of the {} pairs of {} digits into the validation split: change it "
      "or data.source_seed",
      val_fraction_, validation, limit_ * limit_, digits_);
}

bool AdditionDataset::is_validation(int64_t a, int64_t b) const {
  const auto pair = static_cast<uint64_t>(a * limit_ + b);
  return synthetic_stream(source_seed_, RandomPlace::rows, 0).uniform(pair) < val_fraction_;
}

int64_t AdditionDataset::num_eval_sequences(Split split, int64_t seq_len) const {
  require<ValueError>(seq_len == seq_len_of(digits_), "num_eval_sequences: seq_len = {}, it must be {}", seq_len,
                      seq_len_of(digits_));
  const bool is_empty = split == Split::test || (split == Split::validation && val_fraction_ == 0);
  return is_empty ? 0 : SyntheticDataset::num_eval_sequences(split, seq_len);
}

void AdditionDataset::draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  draw_eval(Split::train, stream, row, tokens);
}

void AdditionDataset::draw_eval(Split split, const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
  require<ShapeError>(static_cast<int64_t>(tokens.size()) == seq_len_of(digits_) + 1,
                      "addition: seq_len = {}, it must be {}", tokens.size() - 1, seq_len_of(digits_));
  SequenceRandom random(stream, row);
  int64_t a = 0, b = 0;
  do {
    a = random.below(limit_);
    b = random.below(limit_);
  } while (is_validation(a, b) != (split == Split::validation));
  write(a, b, digits_, tokens);
}

void AdditionDataset::log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const {
  int32_t carry = 0;
  for (int64_t i = 0; i <= digits_; ++i) {
    const int64_t t = 2 * digits_ + 2 + i;
    if (t >= static_cast<int64_t>(tokens.size())) return;
    const int32_t sum = i == digits_ ? carry : tokens[digits_ - 1 - i] + tokens[2 * digits_ - i] + carry;
    result[t - 1] = tokens[t] == sum % 10 ? 0.0 : -INFINITY;
    carry = sum / 10;
  }
}

std::vector<ContextEntropy> AdditionDataset::find_entropies(int64_t) const {
  const auto n = static_cast<double>(digits_);
  double no_carry = 0.1 * binary_entropy(carry_probability(digits_ - 1));
  for (int64_t i = 0; i < digits_; ++i) no_carry += binary_entropy(carry_probability(i));
  const double uniform = n * std::log(10.0) + binary_entropy(carry_probability(digits_));
  return {{{}, uniform / (n + 1), "uniform"}, {{}, no_carry / (n + 1), "no-carry"}, {{}, 0.0, "exact"}};
}

}  // namespace heed::data
