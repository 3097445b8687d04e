// A dataset with few tokens and short sequences against its distribution: all its sequences are enumerated.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "autograd/core/check.hpp"
#include "data/synthetic/synthetic_dataset.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::data {

using Tokens = std::vector<int32_t>;
using Probability = std::function<double(const Tokens&)>;

using test::kSigmas;

// All sequences of `length` tokens, in the order of their base-V numbers.
inline std::vector<Tokens> all_sequences(int64_t vocab_size, int64_t length) {
  std::vector<Tokens> sequences = {{}};
  for (int64_t t = 0; t < length; ++t) {
    std::vector<Tokens> longer;
    for (const Tokens& sequence : sequences) {
      for (int32_t x = 0; x < vocab_size; ++x) {
        longer.push_back(sequence);
        longer.back().push_back(x);
      }
    }
    sequences = std::move(longer);
  }
  return sequences;
}

inline double log_loss(const Dataset& dataset, const Tokens& tokens) {
  const size_t seq_len = tokens.size() - 1;
  return *dataset.log_loss(std::span(tokens).first(seq_len), std::span(tokens).last(seq_len));
}

inline Tokens tokens_of(const Tokens& inputs, const Tokens& targets) {
  Tokens tokens = inputs;
  tokens.push_back(targets.back());
  return tokens;
}

inline Tokens train_tokens(const Dataset& dataset, uint64_t step, int64_t row, int64_t seq_len) {
  Tokens inputs(seq_len), targets(seq_len);
  dataset.train_sequence(step, row, inputs, targets);
  return tokens_of(inputs, targets);
}

inline Tokens eval_tokens(const Dataset& dataset, Split split, int64_t index, int64_t seq_len) {
  Tokens inputs(seq_len), targets(seq_len);
  dataset.eval_sequence(split, index, inputs, targets);
  return tokens_of(inputs, targets);
}

// `probability` of a sequence of seq_len + 1 tokens and that of its first token alone are computed apart from the
// dataset. Compared with them: the losses, the sum over all sequences, the sequences that are drawn (chi-square with
// a fixed seed), and the entropy, exactly or within kSigmas standard errors.
inline void expect_distribution(const Dataset& dataset, int64_t seq_len, const Probability& probability) {
  const std::vector<Tokens> sequences = all_sequences(dataset.vocab_size(), seq_len + 1);
  double sum = 0, mean_loss = 0;
  std::vector<double> first(dataset.vocab_size(), 0.0), p(sequences.size());
  for (size_t s = 0; s < sequences.size(); ++s) first[sequences[s][0]] += p[s] = probability(sequences[s]);
  for (size_t s = 0; s < sequences.size(); ++s) {
    sum += p[s];
    if (first[sequences[s][0]] == 0) continue;
    const double loss = log_loss(dataset, sequences[s]);
    ASSERT_NEAR(std::exp(-loss), p[s] / first[sequences[s][0]], test::kF64) << testing::PrintToString(sequences[s]);
    if (p[s] > 0) mean_loss += p[s] * loss / static_cast<double>(seq_len);
  }
  EXPECT_NEAR(sum, 1.0, test::kF64);
  const ContextEntropy best = dataset.entropies(seq_len).back();
  EXPECT_LE(std::abs(best.nats - mean_loss), kSigmas * best.standard_error + test::kF64);

  constexpr int64_t kDraws = 20'000;
  std::vector<double> count(sequences.size(), 0.0);
  for (int64_t row = 0; row < kDraws; ++row) {
    int64_t number = 0;
    for (const int32_t token : train_tokens(dataset, 3, row, seq_len)) number = number * dataset.vocab_size() + token;
    ++count[number];
  }
  double chi_square = 0, freedom = -1, rare = 0, rare_expected = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    const double expected = kDraws * p[s];
    if (expected < 5) {
      rare += count[s];
      rare_expected += expected;
      ASSERT_TRUE(expected > 0 || count[s] == 0) << "impossible: " << testing::PrintToString(sequences[s]);
      continue;
    }
    chi_square += (count[s] - expected) * (count[s] - expected) / expected;
    ++freedom;
  }
  if (rare_expected > 0) chi_square += (rare - rare_expected) * (rare - rare_expected) / rare_expected;
  EXPECT_LT(std::abs(chi_square - freedom), kSigmas * std::sqrt(2 * freedom + 1)) << chi_square << " of " << freedom;
}

// The mean loss of the source on its own validation sequences is its entropy; the difference has the standard error of
// both.
inline void expect_no_excess(const Dataset& dataset, int64_t seq_len, int64_t targets_per_sequence) {
  double sum = 0, squares = 0;
  const int64_t count = dataset.num_eval_sequences(Split::validation, seq_len);
  ASSERT_GE(count * targets_per_sequence, SyntheticDataset::kMinEvalTargets);
  for (int64_t index = 0; index < count; ++index) {
    Tokens inputs(seq_len), targets(seq_len);
    dataset.eval_sequence(Split::validation, index, inputs, targets);
    const double loss = *dataset.log_loss(inputs, targets) / static_cast<double>(targets_per_sequence);
    sum += loss;
    squares += loss * loss;
  }
  const auto n = static_cast<double>(count);
  const double mean = sum / n, variance = std::max(0.0, squares / n - mean * mean) / n;
  const ContextEntropy best = dataset.entropies(seq_len).back();
  EXPECT_LE(std::abs(mean - best.nats),
            kSigmas * std::sqrt(variance + best.standard_error * best.standard_error) + test::kF64);
}

template <class E>
void expect_error(const std::function<void()>& act, const std::string& text) {
  try {
    act();
    ADD_FAILURE() << "accepted: " << text;
  } catch (const E& error) {
    EXPECT_EQ(std::string(error.what()), text);
  }
}

}  // namespace heed::data
