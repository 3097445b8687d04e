#include "train/ablate/statistics.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "autograd/core/philox.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::train {
namespace {

// Independent normal numbers with mean 0 and sd 1.
class Normals {
 public:
  explicit Normals(uint32_t seed) : stream_{seed, random_site(RandomDomain::data, 0, 0), 0} {}
  double next() { return stream_.normal(4 * index_++); }
  std::vector<double> differences(int64_t pairs, double mean, double sd) {
    std::vector<double> values;
    for (int64_t i = 0; i < pairs; ++i) values.push_back(mean + sd * next());
    return values;
  }

 private:
  RandomStream stream_;
  uint64_t index_ = 0;
};

TEST(Statistics, DescribesASample) {
  const std::array<double, 4> values{1, 2, 3, 6};
  const Sample sample = describe(values);
  EXPECT_EQ(sample.count, 4);
  EXPECT_DOUBLE_EQ(sample.mean, 3);
  EXPECT_DOUBLE_EQ(*sample.sd, std::sqrt(14.0 / 3));
  EXPECT_FALSE(describe(std::array<double, 1>{5}).sd.has_value());
  EXPECT_EQ(describe({}).count, 0);
}

// Values of scipy.stats 1.17: ttest_1samp, t.ppf, and nct solved for a power of 0.8.
TEST(Statistics, AgreesWithScipy) {
  const std::array<double, 5> differences{0.011, -0.004, 0.023, 0.015, 0.009};
  const PairedTest one = paired_t_test(differences, 0.05, 1).value();
  EXPECT_NEAR(one.p, 0.07048399692, test::kSixDigits);
  EXPECT_NEAR(one.half_width, 0.01224157285, test::kSixDigits);
  EXPECT_NEAR(detectable_difference(*one.difference.sd, 5, 0.05, 1), 0.01658282136, test::kSixDigits);
  EXPECT_FALSE(one.is_significant);
  const PairedTest three = paired_t_test(differences, 0.05, 3).value();
  EXPECT_DOUBLE_EQ(three.p, 3 * one.p);
  EXPECT_GT(three.half_width, one.half_width);
  EXPECT_NEAR(detectable_difference(1, 5, 0.05, 1), 1.68199728, test::kSixDigits);
}

TEST(Statistics, SignificantMeansAnIntervalWithoutZero) {
  Normals normals(3);
  for (int i = 0; i < 200; ++i) {
    const PairedTest test = paired_t_test(normals.differences(4, 0.8, 1), 0.05, 2).value();
    EXPECT_EQ(test.is_significant, std::abs(test.difference.mean) > test.half_width);
  }
}

TEST(Statistics, NeedsTwoPairs) {
  EXPECT_FALSE(paired_t_test({}, 0.05, 1).has_value());
  EXPECT_FALSE(paired_t_test(std::array<double, 1>{0.5}, 0.05, 1).has_value());
}

TEST(Statistics, RunsWithoutNoise) {
  EXPECT_FALSE(paired_t_test(std::array<double, 3>{0, 0, 0}, 0.05, 1)->is_significant);
  EXPECT_TRUE(paired_t_test(std::array<double, 3>{0.1, 0.1, 0.1}, 0.05, 1)->is_significant);
}

TEST(Statistics, EqualArmsSeldomDifferSignificantly) {
  Normals normals(1);
  constexpr int kRepeats = 20'000;
  constexpr double kLevel = 0.01;
  int false_positives = 0;
  for (int i = 0; i < kRepeats; ++i)
    false_positives += paired_t_test(normals.differences(5, 0, 2), kLevel, 1)->is_significant;
  EXPECT_NEAR(false_positives, kRepeats * kLevel, test::kSigmas * std::sqrt(kRepeats * kLevel));
}

TEST(Statistics, FindsTheDetectableDifferenceWithItsPower) {
  Normals normals(2);
  const double difference = detectable_difference(0.02, 5, 0.05, 3);
  constexpr int kRepeats = 5'000;
  int found = 0, found_larger = 0;
  for (int i = 0; i < kRepeats; ++i) {
    found += paired_t_test(normals.differences(5, difference, 0.02), 0.05, 3)->is_significant;
    found_larger += paired_t_test(normals.differences(5, 1.5 * difference, 0.02), 0.05, 3)->is_significant;
  }
  EXPECT_NEAR(found, kRepeats * kPower, test::kSigmas * std::sqrt(kRepeats * kPower * (1 - kPower)));
  EXPECT_GT(found_larger, 95 * kRepeats / 100);
}

}  // namespace
}  // namespace heed::train
