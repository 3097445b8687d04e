#include "optim/schedule.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/core/check.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

using test::kF64;
using test::kSixDigits;
using Kind = ScheduleOptions::Kind;
using Decay = ScheduleOptions::Decay;

ScheduleOptions options(Kind kind, int64_t warmup_steps = 4, int64_t total_steps = 14) {
  return {.kind = kind, .peak = 1, .minimum = 0.1, .warmup_steps = warmup_steps, .total_steps = total_steps};
}

TEST(Schedule, CosineHasTheMinimumInItsFormula) {
  const ScheduleOptions cosine = options(Kind::cosine);
  EXPECT_EQ(learning_rate(cosine, 4), 1.0);
  // A lower bound instead would give 0.904508 and 0.5.
  EXPECT_NEAR(learning_rate(cosine, 6), 0.914058, kSixDigits);
  EXPECT_NEAR(learning_rate(cosine, 9), 0.55, kF64);
  EXPECT_EQ(learning_rate(cosine, 14), 0.1);
  EXPECT_EQ(learning_rate(cosine, 100), 0.1);
}

TEST(Schedule, LinearFallsEvenly) {
  const ScheduleOptions linear = options(Kind::linear);
  EXPECT_EQ(learning_rate(linear, 4), 1.0);
  EXPECT_NEAR(learning_rate(linear, 5), 0.91, kF64);
  EXPECT_NEAR(learning_rate(linear, 9), 0.55, kF64);
  EXPECT_NEAR(learning_rate(linear, 13), 0.19, kF64);
  EXPECT_EQ(learning_rate(linear, 14), 0.1);
  EXPECT_EQ(learning_rate(linear, 100), 0.1);
}

TEST(Schedule, ConstantStaysAtItsPeak) {
  for (const int64_t step : {4, 5, 13, 14, 100}) EXPECT_EQ(learning_rate(options(Kind::constant), step), 1.0);
}

TEST(Schedule, WarmUpRisesEvenlyFromAboveZeroToThePeak) {
  for (const Kind kind : {Kind::cosine, Kind::linear, Kind::constant}) {
    for (int64_t step = 0; step < 4; ++step) {
      EXPECT_NEAR(learning_rate(options(kind), step), 0.2 * static_cast<double>(step + 1), kF64);
    }
    EXPECT_EQ(learning_rate(options(kind, 0), 0), 1.0) << "without warm-up";
  }
}

ScheduleOptions wsd(Decay decay, int64_t warmup_steps = 4, int64_t total_steps = 14, int64_t decay_steps = 4) {
  ScheduleOptions o = options(Kind::wsd, warmup_steps, total_steps);
  o.decay_steps = decay_steps;
  o.decay = decay;
  return o;
}

TEST(Schedule, WsdIsConstantAndThenDecays) {
  for (const Decay decay : {Decay::one_minus_sqrt, Decay::linear, Decay::cosine}) {
    const ScheduleOptions o = wsd(decay);
    EXPECT_NEAR(learning_rate(o, 3), 0.8, kF64);
    for (const int64_t step : {4, 7, 10}) EXPECT_EQ(learning_rate(o, step), 1.0) << step;
    EXPECT_LT(learning_rate(o, 11), 1.0);
    for (const int64_t step : {14, 15, 100}) EXPECT_EQ(learning_rate(o, step), 0.1) << step;
  }
  EXPECT_NEAR(learning_rate(wsd(Decay::one_minus_sqrt), 11), 0.55, kF64);
  EXPECT_NEAR(learning_rate(wsd(Decay::one_minus_sqrt), 12), 0.363604, kSixDigits);
  EXPECT_NEAR(learning_rate(wsd(Decay::one_minus_sqrt), 13), 0.220577, kSixDigits);
  EXPECT_NEAR(learning_rate(wsd(Decay::linear), 11), 0.775, kF64);
  EXPECT_NEAR(learning_rate(wsd(Decay::cosine), 12), 0.55, kF64);
  EXPECT_NEAR(learning_rate(wsd(Decay::cosine), 13), 0.231802, kSixDigits);
}

TEST(Schedule, WsdDoesNotKnowTheEndBeforeItsDecay) {
  const ScheduleOptions shorter = wsd(Decay::linear, 4, 14, 4), longer = wsd(Decay::cosine, 4, 1000, 100);
  for (int64_t step = 0; step <= 10; ++step) EXPECT_EQ(learning_rate(shorter, step), learning_rate(longer, step));
  EXPECT_NE(learning_rate(shorter, 11), learning_rate(longer, 11));
}

TEST(Schedule, WsdWithoutAStablePartIsTheLinearSchedule) {
  for (int64_t step = 0; step <= 20; ++step) {
    EXPECT_EQ(learning_rate(wsd(Decay::linear, 4, 14, 10), step), learning_rate(options(Kind::linear), step));
    EXPECT_EQ(learning_rate(wsd(Decay::cosine, 4, 14, 10), step), learning_rate(options(Kind::cosine), step));
  }
}

TEST(Schedule, NoStepIsWasted) {
  for (const Kind kind : {Kind::cosine, Kind::linear, Kind::constant, Kind::wsd}) {
    for (const int64_t total : {1, 2, 5, 14}) {
      for (int64_t warmup = 0; warmup <= total; ++warmup) {
        ScheduleOptions o = options(kind, warmup, total);
        o.minimum = 0;
        o.decay_steps = total - warmup;
        for (int64_t step = 0; step < total; ++step) {
          EXPECT_GT(learning_rate(o, step), 0.0) << warmup << " of " << total << ", step " << step;
          EXPECT_LE(learning_rate(o, step), 1.0);
        }
      }
    }
  }
}

TEST(Schedule, OnlyWarmUpStillRises) {
  const ScheduleOptions o = options(Kind::cosine, 3, 3);
  EXPECT_NEAR(learning_rate(o, 0), 0.25, kF64);
  EXPECT_NEAR(learning_rate(o, 2), 0.75, kF64);
  EXPECT_EQ(learning_rate(o, 3), 0.1);
}

TEST(Schedule, RefusesWhatMakesNoSense) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  const auto refused = [](const ScheduleOptions& o, int64_t step, const std::string& key) {
    try {
      learning_rate(o, step);
      ADD_FAILURE() << "accepted, expected: " << key;
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find(key), std::string::npos) << error.what();
    }
  };
  const auto with = [](double peak, double minimum, int64_t warmup, int64_t total) {
    return ScheduleOptions{.peak = peak, .minimum = minimum, .warmup_steps = warmup, .total_steps = total};
  };
  for (const double peak : {0.0, -1.0, kNan, kInf}) refused(with(peak, 0, 0, 10), 0, "peak");
  for (const double minimum : {-0.1, 1.1, kNan}) refused(with(1, minimum, 0, 10), 0, "minimum");
  for (const int64_t warmup : {-1, 11}) refused(with(1, 0, warmup, 10), 0, "warmup_steps");
  for (const int64_t total : {0, -1}) refused(with(1, 0, 0, total), 0, "total_steps");
  refused(with(1, 0, 0, 10), -1, "step is -1");
  for (const int64_t decay_steps : {-1, 11}) refused(wsd(Decay::linear, 4, 14, decay_steps), 0, "decay_steps");
}

}  // namespace
}  // namespace heed::optim
