#include "optim/grad_clip.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/cpu/parallel.hpp"
#include "tests/optim/optimizer_fixture.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::optim {
namespace {

using test::kF64;
using test::kSixDigits;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

// Weights differ from gradients, so that a norm of the wrong tensor shows.
ParameterSpan with_gradients(DType dtype, const std::vector<double>& gradients) {
  return make_span(dtype, std::vector<double>(gradients.size(), 99.0), gradients, true);
}

TEST(GlobalNorm, IsThatOfAllSpansTogether) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_EQ(global_norm({with_gradients(dtype, {3}), with_gradients(dtype, {0, -4})}), 5.0);
    EXPECT_EQ(global_norm({with_gradients(dtype, {})}), 0.0);
  }
}

TEST(GlobalNorm, IsAccurateAtAllSizes) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const int64_t n : {1, 2, 3, 7, 8, 9, 31, 33, 1023, 1025, 32767, 32768, 32769, 100'001}) {
      const std::vector<double> values = random_values(n, 1);
      long double sum = 0;
      for (const double v : values) sum += static_cast<long double>(v) * v;
      const double want = static_cast<double>(std::sqrt(sum));
      EXPECT_NEAR(global_norm({with_gradients(dtype, values)}), want, kF64 * want) << n;
    }
  }
}

TEST(GlobalNorm, NeitherOverflowsNorUnderflowsInF32) {
  EXPECT_NEAR(global_norm({with_gradients(DType::f32, {3e38, 1})}) / 3e38, 1.0, kSixDigits);
  EXPECT_NEAR(global_norm({with_gradients(DType::f32, {3e-38, 4e-38})}) / 5e-38, 1.0, kSixDigits);
}

// A sum in f32 would stand still long before the end.
TEST(GlobalNorm, KeepsManySmallNextToALarge) {
  std::vector<double> values(1'000'000, 1.0);
  values[0] = 4096;
  EXPECT_NEAR(global_norm({with_gradients(DType::f32, values)}), std::sqrt(4096.0 * 4096 + 999'999), kF64 * 4220);
}

TEST(GlobalNorm, SameBitsForAnyThreads) {
  const ParameterSpan a = with_gradients(DType::f32, random_values(300'001, 2)), b = with_gradients(DType::f32, {1, 2});
  const int threads = cpu::max_threads();
  cpu::set_max_threads(1);
  const double first = global_norm({a, b});
  for (const int count : {2, 3, 7}) {
    cpu::set_max_threads(count);
    EXPECT_EQ(global_norm({a, b}), first) << count;
  }
  cpu::set_max_threads(threads);
}

TEST(GlobalNorm, ShowsNanAndInfAtAnyPlace) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const size_t n : {size_t{1}, size_t{37}, size_t{40'000}}) {
      for (const size_t place : {size_t{0}, n / 2, n - 1}) {
        std::vector<double> values(n, 1.0);
        values[place] = kNan;
        EXPECT_TRUE(std::isnan(global_norm({with_gradients(dtype, {1}), with_gradients(dtype, values)})));
        values[place] = -kInf;
        EXPECT_EQ(global_norm({with_gradients(dtype, {1}), with_gradients(dtype, values)}), kInf);
      }
    }
  }
}

TEST(GlobalNorm, RefusesTokens) {
  EXPECT_THROW(global_norm({{zeros({3}, DType::f32), zeros({3}, DType::i32), true}}), DTypeError);
}

TEST(ClipFactor, BringsTheNormDownAndNeverUp) {
  EXPECT_EQ(clip_factor(0.5, 1), 1.0);
  EXPECT_EQ(clip_factor(0, 1), 1.0);
  EXPECT_DOUBLE_EQ(clip_factor(4, 1), 1 / (4 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_factor(1, 1), 1 / (1 + 1e-6));
  EXPECT_DOUBLE_EQ(clip_factor(100, 0.5), 0.5 / (100 + 1e-6));
  for (const double norm : {1e-12, 0.3, 1.0, 7.0, 1e30}) EXPECT_LE(norm * clip_factor(norm, 0.3), 0.3) << norm;
}

TEST(ClipFactor, ZeroIsOff) {
  for (const double norm : {0.0, 1.0, 1e30}) EXPECT_EQ(clip_factor(norm, 0), 1.0);
}

TEST(ClipFactor, GivesNothingSoundForANormThatIsNotFinite) {
  EXPECT_TRUE(std::isnan(clip_factor(kNan, 1)));
  EXPECT_EQ(clip_factor(kInf, 1), 0.0);
}

TEST(ClipFactor, RefusesWhatIsNoNorm) {
  EXPECT_THROW(clip_factor(-1, 1), ValueError);
  for (const double clip : {-1.0, kNan, kInf}) EXPECT_THROW(clip_factor(1, clip), ValueError) << clip;
}

}  // namespace
}  // namespace heed::optim
