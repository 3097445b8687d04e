// The curves of a plot: what smoothing, thinning and averaging do to the numbers.
#include "train/plot/curve.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace heed::train {
namespace {

Curve curve_from(const std::vector<double>& values) {
  Curve curve;
  for (const double value : values) curve.push_back({.step = static_cast<int64_t>(curve.size()) + 1, .value = value});
  return curve;
}

TEST(Curve, LeavesOutWhatCannotBeDrawn) {
  std::vector<MetricsRow> rows(5);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].step = static_cast<int64_t>(i) + 1;
  rows[0].val_loss = 3;
  rows[2].val_loss = std::numeric_limits<double>::quiet_NaN();
  rows[3].val_loss = std::numeric_limits<double>::infinity();
  rows[4].val_loss = -1e300;
  const Curve curve = curve_of(rows, [](const MetricsRow& row) { return row.val_loss; });
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0].step, 1);
  EXPECT_EQ(curve[0].value, 3);
}

TEST(Curve, SmoothingIsACentredMeanWithoutLag) {
  const Curve result = smoothed(curve_from({4, 0, 8, 1, 7}), 2, 1);
  ASSERT_EQ(result.size(), 5u);
  EXPECT_DOUBLE_EQ(result[0].value, 4);
  EXPECT_DOUBLE_EQ(result[1].value, 12.0 / 3);
  EXPECT_DOUBLE_EQ(result[2].value, 20.0 / 5);
  EXPECT_DOUBLE_EQ(result[3].value, 16.0 / 4);
  EXPECT_DOUBLE_EQ(result[4].value, 16.0 / 3);
  const Curve sparse = smoothed(curve_from({1, 2, 3, 4, 5, 6}), 2, 2);
  ASSERT_EQ(sparse.size(), 3u);
  EXPECT_DOUBLE_EQ(sparse[0].value, 1);  // a straight line stays one
  EXPECT_DOUBLE_EQ(sparse[1].value, 3);
  EXPECT_DOUBLE_EQ(sparse[2].value, 4.5);
  EXPECT_EQ(sparse[2].step, 5);
  EXPECT_TRUE(smoothed({}, 2, 1).empty());
}

TEST(Curve, ThinningKeepsEndsAndSpikes) {
  std::vector<double> values(100'000, 1.0);
  values[777] = 50;
  values[55'555] = -50;
  values.back() = 2;
  const Curve curve = curve_from(values), result = thinned(curve, 100);
  EXPECT_LE(result.size(), 100u);
  EXPECT_EQ(result.front().step, 1);
  EXPECT_EQ(result.back().value, 2);
  double low = 0, high = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    EXPECT_LT(i == 0 ? 0 : result[i - 1].step, result[i].step);
    low = std::min(low, result[i].value);
    high = std::max(high, result[i].value);
  }
  EXPECT_EQ(low, -50);
  EXPECT_EQ(high, 50);
  EXPECT_EQ(thinned(curve_from({1, 2, 3}), 4).size(), 3u);
  for (size_t limit = 4; limit < 12; ++limit) EXPECT_LE(thinned(curve, limit).size(), limit);
}

TEST(Curve, MeanAndDeviationOfRunsOfDifferentLength) {
  const Curve result = mean_curve({curve_from({1, 2, 3}), curve_from({3, 6})});
  ASSERT_EQ(result.size(), 3u);
  EXPECT_DOUBLE_EQ(result[0].value, 2);
  EXPECT_DOUBLE_EQ(result[0].sd, std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(result[1].value, 4);
  EXPECT_DOUBLE_EQ(result[1].sd, std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(result[2].value, 3);
  EXPECT_EQ(result[2].sd, 0);
  EXPECT_EQ(result[2].step, 3);
}

}  // namespace
}  // namespace heed::train
