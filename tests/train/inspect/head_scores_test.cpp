// Scores of attention patterns that were written down by hand.
#include <cmath>

#include "train/inspect/head_scores.hpp"

#include <gtest/gtest.h>

#include "autograd/core/check.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::train {
namespace {

// A pattern whose query i attends to the one key that `key(i)` returns.
template <class Key>
std::vector<float> hard_pattern(int64_t length, Key key) {
  std::vector<float> pattern(length * length);
  for (int64_t i = 0; i < length; ++i) pattern[i * length + key(i)] = 1;
  return pattern;
}

const std::vector<int32_t> kTokens = {4, 1, 2, 9, 4, 1, 2, 7};  // 4 1 2 occurs twice; 9 is the separator
const KeyKinds kKinds(kTokens, 9);
const int64_t kLength = 8;

TEST(HeadScores, PreviousToken) {
  const HeadScores scores =
      head_scores(hard_pattern(kLength, [](int64_t i) { return i == 0 ? 0 : i - 1; }), kLength, kKinds);
  EXPECT_NEAR(scores.of(HeadScore::previous), 7.0 / 8, test::kSixDigits);
  EXPECT_NEAR(scores.of(HeadScore::current), 1.0 / 8, test::kSixDigits);  // of query 0
  EXPECT_NEAR(scores.of(HeadScore::first), 2.0 / 8, test::kSixDigits);    // of queries 0 and 1
  EXPECT_NEAR(scores.of(HeadScore::segment), 7.0 / 8, test::kSixDigits);  // query 4 attends to the separator
  EXPECT_NEAR(scores.distance, 7.0 / 8, test::kSixDigits);
  EXPECT_EQ(scores.strongest_offset(), 1u);
  EXPECT_NEAR(scores.offset[1], 1, test::kSixDigits);
  EXPECT_EQ(scores.entropy, 0);
  EXPECT_EQ(name_head(scores, score_range(kKinds)).name, "previous token");
}

TEST(HeadScores, InductionAndDuplicate) {
  const auto after_copy = [](int64_t i) { return i >= 4 && i < 7 ? i - 3 : int64_t{0}; };
  const HeadScores induction = head_scores(hard_pattern(kLength, after_copy), kLength, kKinds);
  EXPECT_NEAR(induction.of(HeadScore::induction), 3.0 / 8, test::kSixDigits);
  EXPECT_EQ(induction.of(HeadScore::duplicate), 0);
  const auto copy = [](int64_t i) { return i >= 4 && i < 7 ? i - 4 : i; };
  const HeadScores duplicate = head_scores(hard_pattern(kLength, copy), kLength, kKinds);
  EXPECT_NEAR(duplicate.of(HeadScore::duplicate), 3.0 / 8, test::kSixDigits);
  EXPECT_EQ(duplicate.of(HeadScore::induction), 0);
  const ScoreRange range = score_range(kKinds);
  EXPECT_NEAR(range.largest.of(HeadScore::induction), 3.0 / 8, test::kSixDigits);
  EXPECT_NEAR(range.largest.of(HeadScore::previous), 7.0 / 8, test::kSixDigits);
}

TEST(HeadScores, UniformAttention) {
  const HeadScores uniform = score_range(kKinds).uniform;
  double entropy = 0, distance = 0, current = 0;
  for (int64_t i = 0; i < kLength; ++i) {
    entropy += std::log(static_cast<double>(i + 1)) / kLength;
    distance += static_cast<double>(i) / 2 / kLength;
    current += 1.0 / static_cast<double>(i + 1) / kLength;
  }
  EXPECT_NEAR(uniform.entropy, entropy, test::kSixDigits);
  EXPECT_NEAR(uniform.distance, distance, test::kSixDigits);
  EXPECT_NEAR(uniform.of(HeadScore::current), current, test::kSixDigits);
  EXPECT_EQ(name_head(uniform, score_range(kKinds)).name, "mixed");
}

TEST(HeadScores, NamesTheOffsetThatIsAttendedTo) {
  const std::vector<int32_t> distinct = {0, 1, 2, 3, 4, 5, 6, 7};
  const KeyKinds kinds(distinct, std::nullopt);
  const HeadScores scores =
      head_scores(hard_pattern(kLength, [](int64_t i) { return i < 3 ? i : i - 3; }), kLength, kinds);
  const HeadName head = name_head(scores, score_range(kinds));
  EXPECT_EQ(head.name, "offset 3");
  EXPECT_NEAR(head.relative, 1, test::kSixDigits);
  EXPECT_NEAR(scores.of(HeadScore::older_half), 3.0 / 8, test::kSixDigits);  // 3 -> 0, 4 -> 1, 5 -> 2, not 6 -> 3
}

TEST(HeadScores, AnAttentionSinkIsNoOffset) {
  std::vector<float> pattern(kLength * kLength);
  for (int64_t i = 0; i < kLength; ++i) {
    pattern[i * kLength] += 0.9F;
    pattern[i * kLength + i] += 0.1F;
  }
  EXPECT_EQ(name_head(head_scores(pattern, kLength, kKinds), score_range(kKinds)).name, "first token");
}

TEST(HeadScores, PaddingDoesNotCount) {
  const std::vector<int32_t> tokens = {4, 1, 2};
  const KeyKinds kinds(tokens, std::nullopt);
  const std::vector<float> previous = hard_pattern(kLength, [](int64_t i) { return i == 0 ? 0 : i - 1; });
  const HeadScores scores = head_scores(previous, kLength, kinds);
  EXPECT_NEAR(scores.of(HeadScore::previous), 2.0 / 3, test::kSixDigits);
  EXPECT_EQ(scores.offset.size(), 3);
}

TEST(HeadScores, MeansOverSequences) {
  HeadScores scores = head_scores(hard_pattern(kLength, [](int64_t i) { return i; }), kLength, kKinds);
  scores.add(head_scores(hard_pattern(kLength, [](int64_t) { return 0; }), kLength, kKinds));
  scores.divide_by(2);
  EXPECT_NEAR(scores.of(HeadScore::current), (1 + 1.0 / 8) / 2, test::kSixDigits);
  EXPECT_NEAR(scores.offset[0], (1 + 1.0 / 8) / 2, test::kSixDigits);
}

TEST(HeadScores, RefusesAPatternOfAnotherSize) {
  EXPECT_THROW(head_scores(std::vector<float>(9), 3, kKinds), ShapeError);
}

}  // namespace
}  // namespace heed::train
