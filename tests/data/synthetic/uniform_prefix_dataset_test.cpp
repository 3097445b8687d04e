#include "data/synthetic/uniform_prefix_dataset.hpp"

#include <algorithm>

#include "data/synthetic/dirichlet.hpp"
#include "tests/data/synthetic/enumeration.hpp"

namespace heed::data {
namespace {

// Uniform tokens, then the rows of the table.
double from_rows(const Tokens& tokens, int64_t vocab_size, const std::vector<int64_t>& offsets,
                 const std::vector<double>& rows) {
  const int64_t prefix = offsets.empty() ? 0 : *std::max_element(offsets.begin(), offsets.end());
  double p = 1;
  for (int64_t t = 0; t < static_cast<int64_t>(tokens.size()); ++t) {
    int64_t row = 0, place = 1;
    for (const int64_t offset : offsets) {
      if (t >= prefix) row += tokens[t - offset] * place;
      place *= vocab_size;
    }
    p *= t < prefix ? 1.0 / static_cast<double>(vocab_size) : rows[row * vocab_size + tokens[t]];
  }
  return p;
}

TEST(UniformPrefix, TokensComeFromTheRows) {
  for (const std::vector<int64_t>& offsets : std::vector<std::vector<int64_t>>{{1}, {2}, {1, 3}, {3, 1}, {4, 2}, {7}}) {
    SCOPED_TRACE(testing::PrintToString(offsets));
    const std::vector<double> alpha(offsets.size() + 1, 6.0);
    for (const auto& [vocab_size, seq_len] : {std::pair{2, 7}, {3, 5}}) {
      const std::vector<double> rows = hierarchical_dirichlet_rows(vocab_size, alpha, 9);
      const UniformPrefixDataset dataset(
          SkipConfig{.offsets = offsets, .vocab_size = vocab_size, .alpha = alpha, .source_seed = 9});
      expect_distribution(dataset, seq_len,
                          [&, v = vocab_size](const Tokens& t) { return from_rows(t, v, offsets, rows); });
    }
  }
}

TEST(UniformPrefix, AnNgramIsASkipSourceOfAdjacentOffsets) {
  const UniformPrefixDataset ngram(NgramConfig{.order = 3, .vocab_size = 5, .alpha = {8, 6, 4}});
  const UniformPrefixDataset skip(SkipConfig{.offsets = {1, 2}, .vocab_size = 5, .alpha = {8, 6, 4}});
  EXPECT_EQ(train_tokens(ngram, 2, 3, 32), train_tokens(skip, 2, 3, 32));
}

TEST(UniformPrefix, OffsetsMayBeFarApart) {
  const UniformPrefixDataset dataset(SkipConfig{.offsets = {2, 7, 15, 31}, .vocab_size = 8, .alpha = {16, 8, 8, 8, 4}});
  expect_no_excess(dataset, 128, 128);
  const std::vector<ContextEntropy> losses = dataset.entropies(128);
  ASSERT_EQ(losses.size(), 5u);
  EXPECT_EQ(losses[2].name, "2-offset");
  for (size_t k = 0; k < losses.size(); ++k) {
    EXPECT_LE(losses[k].standard_error, test::kReferenceError);
    if (k > 0) {
      EXPECT_LT(losses[k].nats, losses[k - 1].nats - test::kBetterStrategy) << k;
    }
  }
}

// The first levels are flat (their alpha is huge), so that only the last offset helps, and only with the others.
TEST(UniformPrefix, AStrategyKnowsOnlyItsOffsets) {
  const UniformPrefixDataset dataset(SkipConfig{.offsets = {1, 5, 6}, .vocab_size = 6, .alpha = {1e9, 1e9, 1e9, 2}});
  const std::vector<ContextEntropy> losses = dataset.entropies(64);
  EXPECT_NEAR(losses[0].nats, losses[1].nats, 3 * test::kBetterStrategy);
  EXPECT_LT(losses[3].nats, losses[1].nats - 0.3);
}

TEST(UniformPrefix, Refusals) {
  expect_error<ConfigError>(
      [] {
        UniformPrefixDataset(SkipConfig{.offsets = {1, 2, 3, 4}, .vocab_size = 64, .alpha = {1, 1, 1, 1, 1}});
      },
      "data.vocab_size = 64 with data.offsets = [1, 2, 3, 4] makes a table of 64^5 numbers, at most 33554432 are "
      "allowed: lower one of the two");
  expect_error<ConfigError>(
      [] { UniformPrefixDataset(SkipConfig{.offsets = {3}, .vocab_size = 4, .alpha = {1}}); },
      "data.alpha has 1 values, data.offsets = [3] needs 2: the unigram's first, then one for each "
      "longer context");
}

}  // namespace
}  // namespace heed::data
