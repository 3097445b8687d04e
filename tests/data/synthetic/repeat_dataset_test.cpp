#include "data/synthetic/repeat_dataset.hpp"

#include <set>

#include "tests/data/synthetic/enumeration.hpp"

namespace heed::data {
namespace {

bool repeats(const Tokens& tokens, int64_t period) {
  for (size_t t = period; t < tokens.size(); ++t) {
    if (tokens[t] != tokens[t - period]) return false;
  }
  return true;
}

double mixture(const Tokens& tokens, int64_t vocab_size, int64_t min_period, int64_t max_period) {
  double sum = 0;
  for (int64_t period = min_period; period <= max_period; ++period) {
    const auto drawn = static_cast<double>(std::min<int64_t>(period, static_cast<int64_t>(tokens.size())));
    if (repeats(tokens, period)) sum += std::pow(static_cast<double>(vocab_size), -drawn);
  }
  return sum / static_cast<double>(max_period - min_period + 1);
}

TEST(Repeat, IsAMixtureOverPeriods) {
  for (const auto& [min_period, max_period] : {std::pair{1, 1}, {1, 3}, {2, 4}, {3, 3}, {4, 9}}) {
    SCOPED_TRACE(testing::Message() << "periods " << min_period << " to " << max_period);
    for (const auto& [vocab_size, seq_len] : {std::pair{2, 7}, {3, 5}}) {
      const RepeatDataset dataset({.vocab_size = vocab_size, .min_period = min_period, .max_period = max_period});
      expect_distribution(dataset, seq_len, [&, v = vocab_size, low = min_period, high = max_period](const Tokens& t) {
        return mixture(t, v, low, high);
      });
    }
  }
}

TEST(Repeat, EveryPeriodOccurs) {
  const RepeatDataset dataset({.vocab_size = 1000, .min_period = 5, .max_period = 8});
  std::set<int64_t> periods;
  for (int64_t row = 0; row < 100; ++row) {
    const Tokens tokens = train_tokens(dataset, 0, row, 40);
    for (int64_t period = 1; period < 40; ++period) {
      if (repeats(tokens, period)) {
        periods.insert(period);
        break;
      }
    }
  }
  EXPECT_EQ(periods, (std::set<int64_t>{5, 6, 7, 8}));
}

TEST(Repeat, TheLossOfItsSequencesIsItsEntropy) {
  const RepeatDataset dataset({.vocab_size = 16, .min_period = 8, .max_period = 16});
  expect_no_excess(dataset, 64, 64);
  const std::vector<ContextEntropy> losses = dataset.entropies(64);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].nats, std::log(16.0));
  EXPECT_LE(losses[1].standard_error, test::kReferenceError);
}

TEST(Repeat, Refusals) {
  expect_error<ConfigError>([] { RepeatDataset({.min_period = 5, .max_period = 4}); },
                            "data.min_period = 5 and data.max_period = 4, they must be in order and in 1 to 65536");
  expect_error<ConfigError>([] { RepeatDataset({.min_period = 0, .max_period = 4}); },
                            "data.min_period = 0 and data.max_period = 4, they must be in order and in 1 to 65536");
}

}  // namespace
}  // namespace heed::data
