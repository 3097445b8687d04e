// a + b = c: modular_addition and addition.
#include <set>

#include "data/synthetic/addition_dataset.hpp"
#include "data/synthetic/modular_addition_dataset.hpp"
#include "tests/data/synthetic/enumeration.hpp"

namespace heed::data {
namespace {

using Pair = std::pair<int64_t, int64_t>;

// The pair of a sequence, which must be a right sum with only c as target.
Pair modular_pair(const Tokens& inputs, const Tokens& targets, int64_t p) {
  EXPECT_EQ(inputs[2], p);
  EXPECT_EQ(targets, (Tokens{kIgnoreTarget, kIgnoreTarget, static_cast<int32_t>((inputs[0] + inputs[1]) % p)}));
  return {inputs[0], inputs[1]};
}

std::set<Pair> modular_split(const ModularAdditionDataset& dataset, Split split, int64_t p) {
  std::set<Pair> pairs;
  const int64_t count = dataset.num_eval_sequences(split, 3);
  for (int64_t index = 0; index < count; ++index) {
    Tokens inputs(3), targets(3);
    dataset.eval_sequence(split, index, inputs, targets);
    pairs.insert(modular_pair(inputs, targets, p));
  }
  EXPECT_EQ(static_cast<int64_t>(pairs.size()), count) << "a pair occurs twice";
  return pairs;
}

TEST(ModularAddition, TheSplitsHaveEachPairOnce) {
  const ModularAdditionDataset dataset({.modulus = 13, .val_fraction = 0.3});
  const std::set<Pair> train = modular_split(dataset, Split::train, 13);
  const std::set<Pair> validation = modular_split(dataset, Split::validation, 13);
  EXPECT_EQ(validation.size(), 51u);  // 0.3 · 169, rounded
  EXPECT_EQ(train.size(), 118u);
  for (const Pair& pair : validation) EXPECT_FALSE(train.contains(pair));
  EXPECT_EQ(dataset.num_eval_sequences(Split::test, 3), 0);
}

TEST(ModularAddition, TrainingDrawsItsPairsAlikeAndNoOthers) {
  const ModularAdditionDataset dataset({.modulus = 5, .val_fraction = 0.4});
  const std::set<Pair> train = modular_split(dataset, Split::train, 5);
  std::map<Pair, double> count;
  constexpr int64_t kDraws = 15'000;
  for (int64_t row = 0; row < kDraws; ++row) {
    Tokens inputs(3), targets(3);
    dataset.train_sequence(7, row, inputs, targets);
    ++count[modular_pair(inputs, targets, 5)];
  }
  const double expected = kDraws / static_cast<double>(train.size());
  EXPECT_EQ(count.size(), train.size());
  for (const auto& [pair, times] : count) {
    EXPECT_TRUE(train.contains(pair));
    EXPECT_LT(std::abs(times - expected), kSigmas * std::sqrt(expected));
  }
}

TEST(ModularAddition, OnlyTheSourceSeedDecidesTheSplit) {
  const auto validation = [](uint32_t seed, uint32_t source_seed) {
    const ModularAdditionDataset dataset({.modulus = 11, .seed = seed, .source_seed = source_seed});
    return modular_split(dataset, Split::validation, 11);
  };
  EXPECT_EQ(validation(1, 1), validation(2, 1));
  EXPECT_NE(validation(1, 1), validation(1, 2));
}

TEST(ModularAddition, TheRightSumIsCertain) {
  const ModularAdditionDataset dataset({.modulus = 7});
  constexpr int32_t kNone = kIgnoreTarget;
  EXPECT_EQ(*dataset.log_loss(Tokens{3, 6, 7}, Tokens{kNone, kNone, 2}), 0.0);
  EXPECT_EQ(*dataset.log_loss(Tokens{3, 6, 7}, Tokens{kNone, kNone, 3}), INFINITY);
  EXPECT_EQ(*dataset.log_loss(Tokens{3, 6, 7}, Tokens{kNone, kNone, kNone}), 0.0);
  EXPECT_THROW(dataset.log_loss(Tokens{3, 6, 7}, Tokens{6, kNone, 2}), ValueError);  // b is given, not predicted
  const std::vector<ContextEntropy> losses = dataset.entropies(3);
  EXPECT_EQ(losses.front().nats, std::log(7.0));
  EXPECT_EQ(losses.back().nats, 0.0);
}

TEST(ModularAddition, Refusals) {
  expect_error<ConfigError>([] { ModularAdditionDataset({.modulus = 1}); }, "data.modulus = 1, it must be 2 to 1024");
  expect_error<ConfigError>([] { ModularAdditionDataset({.modulus = 2, .val_fraction = 0.95}); },
                            "data.val_fraction = 0.95 leaves none of the 4 pairs to train on: lower it");
  Tokens four(4);
  EXPECT_THROW(ModularAdditionDataset({}).train_sequence(0, 0, four, four), ShapeError);
  EXPECT_THROW(ModularAdditionDataset({}).num_eval_sequences(Split::train, 4), ValueError);
  EXPECT_EQ(ModularAdditionDataset({.val_fraction = 0}).num_eval_sequences(Split::validation, 3), 0);
}

int64_t number_of(const Tokens& tokens, int64_t begin, int64_t end) {
  int64_t number = 0;
  for (int64_t i = begin; i != end; i += begin < end ? 1 : -1) number = 10 * number + tokens[i];
  return number;
}

Pair sum_of(const Tokens& tokens, int64_t n) {
  const int64_t a = number_of(tokens, 0, n), b = number_of(tokens, n + 1, 2 * n + 1);
  EXPECT_EQ(tokens[n], 10);
  EXPECT_EQ(tokens[2 * n + 1], 11);
  EXPECT_EQ(number_of(tokens, 3 * n + 2, 2 * n + 1), a + b);
  return {a, b};
}

TEST(Addition, TheSplitsShareNoPair) {
  const AdditionDataset dataset({.digits = 2, .val_fraction = 0.2});
  std::set<Pair> validation, train;
  for (int64_t i = 0; i < dataset.num_eval_sequences(Split::validation, 8); ++i)
    validation.insert(sum_of(eval_tokens(dataset, Split::validation, i, 8), 2));
  for (int64_t i = 0; i < dataset.num_eval_sequences(Split::train, 8); ++i)
    train.insert(sum_of(eval_tokens(dataset, Split::train, i, 8), 2));
  for (int64_t row = 0; row < 5000; ++row) train.insert(sum_of(train_tokens(dataset, 1, row, 8), 2));
  for (const Pair& pair : validation) ASSERT_FALSE(train.contains(pair));
  // 33334 draws reach nearly all pairs of the two splits.
  EXPECT_NEAR(static_cast<double>(validation.size()), 2000, kSigmas * 40);
  EXPECT_NEAR(static_cast<double>(train.size()), 8000, kSigmas * 40 + 200);
  EXPECT_EQ(dataset.num_eval_sequences(Split::test, 8), 0);
}

TEST(Addition, OnlyTheDigitsOfTheSumAreTargets) {
  const AdditionDataset dataset({.digits = 3});
  Tokens inputs(11), targets(11);
  dataset.train_sequence(0, 0, inputs, targets);
  for (int64_t i = 0; i < 11; ++i) EXPECT_EQ(targets[i] == kIgnoreTarget, i < 7) << i;
  EXPECT_EQ(*dataset.log_loss(inputs, targets), 0.0);
  EXPECT_EQ(dataset.num_eval_sequences(Split::validation, 11), 25'000);
  targets[10] = 1 - targets[10];
  EXPECT_EQ(*dataset.log_loss(inputs, targets), INFINITY);
}

// From all pairs of two digits: the entropy of each digit of c, alone and given the two digits above it.
TEST(Addition, StrategiesKnowNoCarry) {
  double uniform = 0, no_carry = 0;
  for (int64_t i = 0; i <= 2; ++i) {
    std::map<int64_t, double> alone;
    std::map<Pair, std::map<int64_t, double>> given;
    for (int64_t a = 0; a < 100; ++a) {
      for (int64_t b = 0; b < 100; ++b) {
        const int64_t place = i == 0 ? 1 : i == 1 ? 10 : 100, above = i == 0 ? 1 : 10;
        const int64_t digit = (a + b) / place % 10;
        ++alone[digit];
        ++given[{a / above % 10, b / above % 10}][digit];
      }
    }
    for (const auto& [digit, count] : alone) uniform -= count / 1e4 * std::log(count / 1e4) / 3;
    for (const auto& [pair, digits] : given) {
      for (const auto& [digit, count] : digits) no_carry -= count / 1e4 * std::log(count / 1e2) / 3;
    }
  }
  const std::vector<ContextEntropy> losses = AdditionDataset({.digits = 2}).entropies(8);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_NEAR(losses[0].nats, uniform, test::kF64);
  EXPECT_NEAR(losses[1].nats, no_carry, test::kF64);
  EXPECT_EQ(losses[2].nats, 0.0);
}

TEST(Addition, Refusals) {
  expect_error<ConfigError>([] { AdditionDataset({.digits = 10}); }, "data.digits = 10, it must be 1 to 9");
  expect_error<ConfigError>([] { AdditionDataset({.val_fraction = 0.95}); },
                            "data.val_fraction = 0.95, with data.source = \"addition\" it must be 0 or 0.001 to 0.9");
  Tokens four(4);
  EXPECT_THROW(AdditionDataset({}).train_sequence(0, 0, four, four), ShapeError);
  EXPECT_EQ(AdditionDataset({.val_fraction = 0}).num_eval_sequences(Split::validation, 11), 0);
}

}  // namespace
}  // namespace heed::data
