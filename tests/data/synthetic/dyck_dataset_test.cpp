#include "data/synthetic/dyck_dataset.hpp"

#include "tests/data/synthetic/enumeration.hpp"

namespace heed::data {
namespace {

double nested(const Tokens& tokens, int32_t num_brackets, size_t max_depth) {
  std::string open;
  double p = 1;
  for (const int32_t token : tokens) {
    const double opens = open.empty() ? 1 : open.size() == max_depth ? 0 : 0.5;
    if (token < num_brackets) {
      p *= opens / num_brackets;
      open += static_cast<char>('a' + token);
    } else {
      if (open.empty() || open.back() != 'a' + token - num_brackets) return 0;
      p *= 1 - opens;
      open.pop_back();
    }
  }
  return p;
}

TEST(Dyck, BracketsAreNested) {
  for (const int64_t max_depth : {1, 2, 3, 9}) {
    SCOPED_TRACE(testing::Message() << "depth " << max_depth);
    for (const auto& [num_brackets, seq_len] : {std::pair{1, 7}, {2, 5}}) {
      const DyckDataset dataset({.num_brackets = num_brackets, .max_depth = max_depth});
      expect_distribution(dataset, seq_len, [&, k = num_brackets](const Tokens& tokens) {
        return nested(tokens, k, static_cast<size_t>(max_depth));
      });
    }
  }
}

// Without the type of the bracket to close each of the k is as probable, and without the depth opening has its mean
// probability: both from the enumerated distribution.
TEST(Dyck, StrategiesKnowLess) {
  constexpr int64_t kSeqLen = 5;
  const DyckDataset dataset({.num_brackets = 2, .max_depth = 2});
  double mean_open = 0, depth_loss = 0;
  for (const Tokens& tokens : all_sequences(4, kSeqLen + 1)) {
    const double p = nested(tokens, 2, 2);
    if (p == 0) continue;
    int64_t depth = 1;
    for (int64_t t = 1; t <= kSeqLen; ++t) {
      if (depth == 1) depth_loss += p * std::log(2.0) / kSeqLen;  // to open or to close
      depth_loss += p * std::log(2.0) / kSeqLen;                  // the type
      mean_open += tokens[t] < 2 ? p / kSeqLen : 0;
      depth += tokens[t] < 2 ? 1 : -1;
    }
  }
  const std::vector<ContextEntropy> losses = dataset.entropies(kSeqLen);
  ASSERT_EQ(losses.size(), 3u);
  const double open = -mean_open * std::log(mean_open) - (1 - mean_open) * std::log(1 - mean_open);
  EXPECT_NEAR(losses[0].nats, open + std::log(2.0), test::kF64);
  EXPECT_NEAR(losses[1].nats, depth_loss, test::kF64);
}

TEST(Dyck, TheLossOfItsSequencesIsItsEntropy) { expect_no_excess(DyckDataset({}), 64, 64); }

TEST(Dyck, Refusals) {
  expect_error<ConfigError>([] { DyckDataset({.num_brackets = 0}); }, "data.num_brackets = 0, it must be 1 to 32768");
  expect_error<ConfigError>([] { DyckDataset({.max_depth = 0}); }, "data.max_depth = 0, it must be 1 to 65536");
}

}  // namespace
}  // namespace heed::data
