// The ngram and skip sources: their sequences, their statistics, their refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "autograd/core/check.hpp"
#include "data/synthetic/markov_dataset.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::data {
namespace {

constexpr double kSigmas = 5.0;

struct Sequence {
  explicit Sequence(int64_t seq_len) : inputs(seq_len), targets(seq_len) {}
  bool operator==(const Sequence&) const = default;
  std::vector<int32_t> inputs, targets;
};

Sequence train_sequence(const Dataset& dataset, uint64_t step, int64_t row, int64_t seq_len) {
  Sequence sequence(seq_len);
  dataset.train_sequence(step, row, sequence.inputs, sequence.targets);
  return sequence;
}

Sequence eval_sequence(const Dataset& dataset, Split split, int64_t index, int64_t seq_len) {
  Sequence sequence(seq_len);
  dataset.eval_sequence(split, index, sequence.inputs, sequence.targets);
  return sequence;
}

struct Mean {
  void add(double value) { ++n, sum += value, sum_of_squares += value * value; }
  double mean() const { return sum / n; }
  double standard_error() const { return std::sqrt((sum_of_squares / n - mean() * mean()) / n); }
  double n = 0, sum = 0, sum_of_squares = 0;
};

NgramDataset small_ngram(uint32_t seed = 1) { return NgramDataset({3, 8, {8, 6, 4}, seed}); }

TEST(SyntheticDataset, TargetsAreTheNextTokens) {
  const NgramDataset dataset = small_ngram();
  for (int64_t row = 0; row < 50; ++row) {
    for (const Sequence& sequence :
         {train_sequence(dataset, 3, row, 16), eval_sequence(dataset, Split::validation, row, 16)}) {
      for (size_t i = 0; i + 1 < sequence.inputs.size(); ++i) ASSERT_EQ(sequence.targets[i], sequence.inputs[i + 1]);
      for (const int32_t token : sequence.inputs) ASSERT_TRUE(0 <= token && token < dataset.vocab_size());
      ASSERT_TRUE(0 <= sequence.targets.back() && sequence.targets.back() < dataset.vocab_size());
    }
  }
}

// Where every token is followed by exactly one other, the last target is known too.
TEST(SyntheticDataset, TheLastTargetFollowsTheLastInput) {
  const NgramDataset dataset({2, 6, {1e9, 1e-3}, 4});
  for (int64_t row = 0; row < 50; ++row) {
    const Sequence sequence = train_sequence(dataset, 0, row, 9);
    const auto p = dataset.chain().row(sequence.inputs.back());
    ASSERT_GT(p[sequence.targets.back()], 0.99);
  }
}

TEST(SyntheticDataset, ASequenceIsAPureFunctionOfSeedStepAndRow) {
  const NgramDataset dataset = small_ngram(), same = small_ngram(), other = small_ngram(2);
  std::vector<Sequence> forward, backward;
  for (int64_t row = 0; row < 20; ++row) forward.push_back(train_sequence(dataset, 5, row, 16));
  for (int64_t row = 19; row >= 0; --row) {
    train_sequence(same, 6, row, 16);
    eval_sequence(same, Split::test, row, 16);
    backward.insert(backward.begin(), train_sequence(same, 5, row, 16));
  }
  EXPECT_EQ(forward, backward);
  for (int64_t row = 1; row < 20; ++row) EXPECT_FALSE(forward[row] == forward[0]);
  EXPECT_FALSE(train_sequence(dataset, 5, 0, 16) == train_sequence(dataset, 6, 0, 16));
  EXPECT_FALSE(train_sequence(dataset, 5, 0, 16) == train_sequence(dataset, 5 + (uint64_t{1} << 32), 0, 16));
  EXPECT_FALSE(train_sequence(dataset, 5, 0, 16) == train_sequence(other, 5, 0, 16));
  EXPECT_NE(dataset.entropies(16).back().nats, other.entropies(16).back().nats);
}

// Sequences of one row and the next share no random number: a shared one would show as the same piece of text.
TEST(SyntheticDataset, RowsShareNoNumbers) {
  const NgramDataset dataset({1, 1 << 16, {1e9}, 1});
  for (const int64_t seq_len : {1, 2, 3, 4, 5, 8}) {
    std::vector<int32_t> seen;
    for (int64_t row = 0; row < 20; ++row) {
      const Sequence sequence = train_sequence(dataset, 0, row, seq_len);
      std::vector<int32_t> tokens = sequence.inputs;
      tokens.push_back(sequence.targets.back());
      for (const int32_t token : tokens) {
        // 180 draws out of 65536: a chance repeat is likely only in some seeds, and this one has none.
        EXPECT_EQ(std::count(seen.begin(), seen.end(), token), 0) << "seq_len " << seq_len << " row " << row;
      }
      seen.insert(seen.end(), tokens.begin(), tokens.end());
    }
  }
}

TEST(SyntheticDataset, SplitsDiffer) {
  const NgramDataset dataset = small_ngram();
  const std::vector<Sequence> sequences = {
      train_sequence(dataset, 0, 0, 16), eval_sequence(dataset, Split::train, 0, 16),
      eval_sequence(dataset, Split::validation, 0, 16), eval_sequence(dataset, Split::test, 0, 16)};
  for (size_t i = 0; i < sequences.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_FALSE(sequences[i] == sequences[j]) << i << " " << j;
  }
}

TEST(SyntheticDataset, EvaluationHoldsAtLeast100000Targets) {
  const NgramDataset dataset = small_ngram();
  EXPECT_EQ(dataset.num_eval_sequences(Split::validation, 64), 1563);
  EXPECT_EQ(dataset.num_eval_sequences(Split::test, 1), 100'000);
  EXPECT_EQ(dataset.num_eval_sequences(Split::validation, 1'000'000), 1);
  EXPECT_NO_THROW(eval_sequence(dataset, Split::validation, 1562, 64));
  EXPECT_THROW(eval_sequence(dataset, Split::validation, 1563, 64), ValueError);
  EXPECT_THROW(eval_sequence(dataset, Split::validation, -1, 64), ValueError);
  EXPECT_THROW(dataset.num_eval_sequences(Split::validation, 0), ValueError);
}

// The mean log-loss of the sequences that are really drawn is the exact entropy, at each position and in all.
void expect_loss_meets_entropy(const MarkovDataset& dataset, int64_t seq_len) {
  Mean total;
  std::vector<Mean> at_position(seq_len);
  for (int64_t index = 0; index < dataset.num_eval_sequences(Split::validation, seq_len); ++index) {
    const Sequence sequence = eval_sequence(dataset, Split::validation, index, seq_len);
    total.add(*dataset.log_loss(sequence.inputs, sequence.targets) / static_cast<double>(seq_len));
    for (int64_t i = 0; i < seq_len; ++i) {
      std::vector<int32_t> only(seq_len, kIgnoreTarget);
      only[i] = sequence.targets[i];
      at_position[i].add(*dataset.log_loss(sequence.inputs, only));
    }
  }
  EXPECT_LT(std::abs(total.mean() - dataset.entropies(seq_len).back().nats), kSigmas * total.standard_error());
  for (int64_t i = 0; i < seq_len; ++i) {
    const double expected = dataset.chain().conditional_entropies()[std::min(i + 1, dataset.chain().memory())];
    EXPECT_LT(std::abs(at_position[i].mean() - expected), kSigmas * at_position[i].standard_error()) << i;
  }
}

TEST(SyntheticDataset, TheLossOfItsSequencesIsItsEntropy) {
  expect_loss_meets_entropy(NgramDataset({3, 32, {32, 8, 4}, 1}), 16);
  expect_loss_meets_entropy(NgramDataset({1, 32, {4}, 1}), 8);
  expect_loss_meets_entropy(NgramDataset({5, 4, {4, 4, 4, 4, 2}, 1}), 2);
  expect_loss_meets_entropy(SkipDataset({{1, 3, 4}, 8, {16, 16, 16, 8}, 1}), 12);
  expect_loss_meets_entropy(SkipDataset({{4, 2}, 8, {16, 16, 8}, 1}), 12);
}

// Every position of a sequence has the stationary law: the first pair, the last pair.
TEST(SyntheticDataset, SequencesAreStationaryFromTheFirstToken) {
  const NgramDataset dataset = small_ngram();
  const auto law = dataset.chain().prefix_law(2);
  constexpr int64_t kSequences = 20'000, kSeqLen = 7;
  for (const int64_t position : {int64_t{0}, kSeqLen - 1}) {
    std::vector<double> count(law.size(), 0.0);
    for (int64_t row = 0; row < kSequences; ++row) {
      const Sequence sequence = train_sequence(dataset, 9, row, kSeqLen);
      ++count[sequence.inputs[position] * 8 + sequence.targets[position]];
    }
    for (size_t pair = 0; pair < law.size(); ++pair) {
      const double sigma = std::sqrt(kSequences * law[pair] * (1.0 - law[pair]));
      EXPECT_LT(std::abs(count[pair] - kSequences * law[pair]), kSigmas * sigma + 1.0) << position << " " << pair;
    }
  }
}

TEST(SyntheticDataset, EntropiesFallWithEachTokenOfContext) {
  const std::vector<ContextEntropy> entropies = NgramDataset({4, 12, {12, 8, 6, 4}, 1}).entropies(64);
  ASSERT_EQ(entropies.size(), 4u);
  const std::vector<std::string> names = {"unigram", "bigram", "trigram", "4-gram"};
  for (size_t k = 0; k < entropies.size(); ++k) {
    EXPECT_EQ(entropies[k].name, names[k]);
    EXPECT_LT(entropies[k].nats, k == 0 ? std::log(12.0) : entropies[k - 1].nats);
  }
  EXPECT_GT(entropies.back().nats, 0.0);
}

TEST(SyntheticDataset, IgnoredTargetsDoNotCount) {
  const NgramDataset dataset = small_ngram();
  const Sequence sequence = train_sequence(dataset, 0, 0, 16);
  double sum = 0.0;
  for (size_t i = 0; i < 16; ++i) {
    std::vector<int32_t> only(16, kIgnoreTarget);
    only[i] = sequence.targets[i];
    sum += *dataset.log_loss(sequence.inputs, only);
  }
  EXPECT_NEAR(sum, *dataset.log_loss(sequence.inputs, sequence.targets), test::kF64);
  EXPECT_EQ(*dataset.log_loss(sequence.inputs, std::vector<int32_t>(16, kIgnoreTarget)), 0.0);
}

TEST(SyntheticDataset, AnNgramIsASkipSourceOfAdjacentOffsets) {
  const NgramDataset ngram({3, 8, {8, 6, 4}, 1});
  const SkipDataset skip({{1, 2}, 8, {8, 6, 4}, 1}), turned({{2, 1}, 8, {8, 6, 4}, 1});
  EXPECT_EQ(train_sequence(ngram, 2, 3, 32), train_sequence(skip, 2, 3, 32));
  EXPECT_FALSE(train_sequence(ngram, 2, 3, 32) == train_sequence(turned, 2, 3, 32));
}

// An offset of 2 alone makes two interleaved chains: the token just before says nothing.
TEST(SkipDataset, ATokenThatIsSkippedTellsNothing) {
  const SkipDataset dataset({{2}, 8, {16, 4}, 1});
  const std::span<const double> entropies = dataset.chain().conditional_entropies();
  EXPECT_NEAR(entropies[1], entropies[0], test::kF64);
  EXPECT_LT(entropies[2], entropies[1] - 0.1);
}

TEST(SyntheticDataset, OneTokenIsCertain) {
  const NgramDataset ngram({3, 1, {1, 1, 1}, 1});
  const SkipDataset skip({{1, 3}, 1, {1, 1, 1}, 1});
  for (const Dataset* dataset : {static_cast<const Dataset*>(&ngram), static_cast<const Dataset*>(&skip)}) {
    const Sequence sequence = train_sequence(*dataset, 0, 0, 5);
    EXPECT_EQ(sequence.inputs, std::vector<int32_t>(5, 0));
    EXPECT_EQ(sequence.targets, std::vector<int32_t>(5, 0));
    EXPECT_EQ(*dataset->log_loss(sequence.inputs, sequence.targets), 0.0);
    EXPECT_EQ(dataset->entropies(5).back().nats, 0.0);
  }
}

TEST(SyntheticDataset, TwoTokensOfALongMemoryInAShortSequence) {
  const NgramDataset dataset({16, 2, std::vector<double>(16, 20.0), 1});
  EXPECT_EQ(dataset.chain().num_states(), 1 << 15);
  const Sequence sequence = train_sequence(dataset, 0, 0, 3);
  EXPECT_TRUE(std::isfinite(*dataset.log_loss(sequence.inputs, sequence.targets)));
  const std::vector<ContextEntropy> entropies = dataset.entropies(3);
  ASSERT_EQ(entropies.size(), 16u);
  EXPECT_EQ(entropies[3].nats, entropies[15].nats);  // no position has more than three tokens before it
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

TEST(Refusals, NgramKeys) {
  const auto make = [](int64_t order, int64_t vocab_size, std::vector<double> alpha) {
    return [=] { NgramDataset({order, vocab_size, alpha, 1}); };
  };
  expect_error<ConfigError>(make(0, 4, {}), "data.order = 0, it must be 1 to 21");
  expect_error<ConfigError>(make(-1, 4, {}), "data.order = -1, it must be 1 to 21");
  expect_error<ConfigError>(make(INT64_MAX, 4, {}), "data.order = 9223372036854775807, it must be 1 to 21");
  expect_error<ConfigError>(make(2, 0, {1, 1}), "data.vocab_size = 0, it must be at least 1");
  expect_error<ConfigError>(make(2, -5, {1, 1}), "data.vocab_size = -5, it must be at least 1");
  expect_error<ConfigError>(
      make(3, 4, {1, 1}),
      "data.alpha has 2 values, data.order = 3 needs 3: the unigram's first, then one for each longer context");
  expect_error<ConfigError>(make(1, 4, {0}), "data.alpha holds 0, each must be in 1e-06 to 1000000000");
  expect_error<ConfigError>(make(1, 4, {-1}), "data.alpha holds -1, each must be in 1e-06 to 1000000000");
  expect_error<ConfigError>(make(2, 4, {1, NAN}), "data.alpha holds nan, each must be in 1e-06 to 1000000000");
  expect_error<ConfigError>(make(2, 4, {1, INFINITY}), "data.alpha holds inf, each must be in 1e-06 to 1000000000");
  expect_error<ConfigError>(make(5, 64, std::vector<double>(5, 1.0)),
                            "data.vocab_size = 64 with data.order = 5 makes 64^4 states, at most 1048576 are allowed: "
                            "lower one of the two");
  expect_error<ConfigError>(make(3, 1024, std::vector<double>(3, 1.0)),
                            "data.vocab_size = 1024 with data.order = 3 makes a table of 1024^3 numbers, at most "
                            "33554432 are allowed: lower one of the two");
}

TEST(Refusals, SkipKeys) {
  const auto make = [](std::vector<int64_t> offsets, int64_t vocab_size, std::vector<double> alpha) {
    return [=] { SkipDataset({offsets, vocab_size, alpha, 1}); };
  };
  expect_error<ConfigError>(make({}, 4, {1}), "data.offsets = [], it must list at least one offset");
  expect_error<ConfigError>(make({1, 0}, 4, {1, 1, 1}), "data.offsets = [1, 0] holds 0, each must be at least 1");
  expect_error<ConfigError>(make({-2}, 4, {1, 1}), "data.offsets = [-2] holds -2, each must be at least 1");
  expect_error<ConfigError>(make({1, 3, 1}, 4, {1, 1, 1, 1}),
                            "data.offsets = [1, 3, 1] holds 1 twice, they must be distinct");
  expect_error<ConfigError>(make({1, 5}, 32, {1, 1, 1}),
                            "data.vocab_size = 32 with data.offsets = [1, 5] makes 32^5 states, at most 1048576 are "
                            "allowed: lower one of the two");
  expect_error<ConfigError>(make({INT64_MAX}, 2, {1, 1}),
                            "data.vocab_size = 2 with data.offsets = [9223372036854775807] makes "
                            "2^9223372036854775807 states, at most 1048576 are allowed: lower one of the two");
  expect_error<ConfigError>(make({21}, 1, {1, 1}), "data.offsets = [21] looks back 21 tokens, at most 20 are allowed");
  expect_error<ConfigError>(make({1, 3}, 4, {1, 1}),
                            "data.alpha has 2 values, data.offsets = [1, 3] needs 3: the unigram's first, then one "
                            "for each longer context");
}

TEST(Refusals, WrongCalls) {
  const NgramDataset dataset = small_ngram();
  std::vector<int32_t> three(3, 0), two(2, 0), none, outside = {0, 8, 0}, negative = {0, -1, 0};
  EXPECT_THROW(dataset.train_sequence(0, 0, three, two), ShapeError);
  EXPECT_THROW(dataset.train_sequence(0, 0, none, none), ShapeError);
  EXPECT_THROW(dataset.train_sequence(0, -1, three, three), ValueError);
  EXPECT_THROW(dataset.log_loss(three, two), ShapeError);
  EXPECT_THROW(dataset.log_loss(none, none), ShapeError);
  EXPECT_THROW(dataset.log_loss(outside, three), ValueError);
  EXPECT_THROW(dataset.log_loss(three, outside), ValueError);
  EXPECT_THROW(dataset.log_loss(negative, three), ValueError);
  EXPECT_NO_THROW(dataset.log_loss(three, negative));  // -1 among the targets: ignored
  EXPECT_THROW(dataset.entropies(0), ValueError);
}

}  // namespace
}  // namespace heed::data
