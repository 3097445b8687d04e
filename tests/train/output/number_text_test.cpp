#include "train/output/number_text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace heed::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

TEST(NumberText, Losses) {
  EXPECT_EQ(loss_text(2.02094), "2.0209");
  EXPECT_EQ(loss_text(-0.5), "-0.5000");
  EXPECT_EQ(loss_text(14376.599609375), "14376.6");
  EXPECT_EQ(loss_text(1e300), "1e+300");
  EXPECT_EQ(loss_text(kNan), "nan");
  EXPECT_EQ(loss_text(std::copysign(kNan, -1)), "nan");
  EXPECT_EQ(loss_text(-kInf), "-inf");
}

TEST(NumberText, Numbers) {
  EXPECT_EQ(number_text(0.000994321), "0.000994");
  EXPECT_EQ(number_text(std::copysign(kNan, -1)), "nan");
  EXPECT_EQ(number_text(kInf), "inf");
  EXPECT_EQ(number_text(1.0 / 3, 6), "0.333333");
  EXPECT_EQ(count_text(12), "12");
  EXPECT_EQ(count_text(58412), "58.4k");
  EXPECT_EQ(count_text(1.236e6), "1.24M");
  EXPECT_EQ(plural(1, "thread"), "1 thread");
  EXPECT_EQ(plural(0, "thread"), "0 threads");
  EXPECT_EQ(plural(2, "thread"), "2 threads");
}

TEST(NumberText, Durations) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(0.2), "0:01") << "there is something left";
  EXPECT_EQ(duration_text(61), "1:01");
  EXPECT_EQ(duration_text(3725), "1:02:05");
  EXPECT_EQ(duration_text(kInf), "?");
  EXPECT_EQ(duration_text(kNan), "?");
}

}  // namespace
}  // namespace heed::train
