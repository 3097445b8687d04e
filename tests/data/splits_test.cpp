#include "data/splits.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/core/check.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text;

void expect_sizes(const SplitSizes& sizes, int64_t train, int64_t validation, int64_t test) {
  EXPECT_EQ(sizes.train, train);
  EXPECT_EQ(sizes.validation, validation);
  EXPECT_EQ(sizes.test, test);
}

TEST(Splits, CutAtTheFloorOfTheTrainingShare) {
  expect_sizes(split_by_fractions(1'115'394, 0.1, 0), 1'003'854, 111'540, 0);
  expect_sizes(split_by_fractions(18, 0.5, 0), 9, 9, 0);
  expect_sizes(split_by_fractions(10, 0.1, 0.1), 8, 1, 1);
  expect_sizes(split_by_fractions(10, 0, 0), 10, 0, 0);
  expect_sizes(split_by_fractions(0, 0.1, 0.1), 0, 0, 0);
  for (int percent = 1; percent < 100; ++percent) {  // where 1 - share is a little off
    expect_sizes(split_by_fractions(1000, percent / 100.0, 0), 1000 - 10 * percent, 10 * percent, 0);
    expect_sizes(split_by_fractions(1000, 0, percent / 100.0), 1000 - 10 * percent, 0, 10 * percent);
  }
}

TEST(Splits, AddUpToTheWhole) {
  for (int64_t total = 8; total < 300; ++total) {
    const SplitSizes sizes = split_by_fractions(total, 0.13, 0.07);
    EXPECT_EQ(sizes.total(), total);
    EXPECT_GE(sizes.train, 0);
    EXPECT_GE(sizes.validation, 0);
    EXPECT_GE(sizes.test, 0);
  }
}

// 10 · 0.05 rounds to nothing beside a test split; a run without validation must be meant.
TEST(Splits, RefusesAShareForValidationThatIsNothing) {
  EXPECT_TRUE(contains(error_text<ConfigError>([] { split_by_fractions(10, 0.05, 0.05); }),
                       {"data.val_fraction = 0.05 of 10", "0 to train without"}));
  EXPECT_THROW(split_lines(10, {.val_fraction = 0.05, .test_fraction = 0.05}), ConfigError);
  expect_sizes(split_by_fractions(10, 0, 0.05), 9, 0, 1);
  expect_sizes(split_by_fractions(20, 0.05, 0.05), 18, 1, 1);
}

TEST(Splits, RefusesFractionsThatLeaveNothingToTrainOn) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [val, test] : {std::pair(-0.1, 0.0), {0.0, -0.1}, {1.0, 0.0}, {0.5, 0.5}, {nan, 0.0}, {0.0, nan}}) {
    EXPECT_TRUE(contains(error_text<ConfigError>([&, v = val, t = test] { split_by_fractions(10, v, t); }),
                         {"data.val_fraction", "data.test_fraction"}));
  }
}

TEST(Splits, LinesByCountOrByFraction) {
  expect_sizes(split_lines(32'032, {.val_lines = 1000, .test_lines = 1000}), 30'032, 1000, 1000);
  expect_sizes(split_lines(100, {.val_fraction = 0.2, .test_fraction = 0.1}), 70, 20, 10);
  expect_sizes(split_lines(100, {.val_fraction = 0.2, .test_lines = 3}), 77, 20, 3);
  expect_sizes(split_lines(100, {.val_fraction = 0.2, .test_fraction = 0.5, .val_lines = 0}), 50, 0, 50);
}

TEST(Splits, RefusesMoreLinesThanThereAre) {
  EXPECT_TRUE(contains(error_text<ConfigError>([] { split_lines(5, {.val_lines = 3, .test_lines = 3}); }),
                       {"data.val_lines", "data.test_lines", "3 and 3 lines", "there are 5"}));
  EXPECT_THROW(split_lines(5, {.val_lines = -1}), ConfigError);
  EXPECT_THROW(split_lines(5, {.test_lines = std::numeric_limits<int64_t>::max()}), ConfigError);
  EXPECT_THROW(split_lines(10, {.val_fraction = 0.9, .test_lines = 9}), ConfigError);
}

}  // namespace
}  // namespace heed::data
