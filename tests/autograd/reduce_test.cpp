#include "autograd/ops/reduce.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "autograd/cpu/parallel.hpp"
#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

// A running sum in f32 stops at 2^24 = 16777216.
TEST(Sum, ManyOnesAreExactInF32) {
  constexpr int64_t kCount = 20'000'003;
  const Tensor x = empty({kCount}, DType::f32);
  std::fill_n(x.data<float>(), kCount, 1.0f);
  EXPECT_EQ(sum(x).item(), static_cast<double>(static_cast<float>(kCount)));
  EXPECT_EQ(mean(x).item(), 1.0);
}

TEST(Sum, ManySmallValuesAreAsExactAsF32) {
  constexpr int64_t kCount = 10'000'000;
  const Tensor x = empty({kCount}, DType::f32);
  std::fill_n(x.data<float>(), kCount, 0.1f);
  const double exact = static_cast<double>(0.1f) * kCount;
  EXPECT_NEAR(sum(x).item(), exact, exact * kF32Epsilon);
  EXPECT_NEAR(mean(x).item(), static_cast<double>(0.1f), kF32Epsilon);
}

TEST(Sum, OfAnyLength) {
  for (int64_t count = 0; count <= 300; ++count) {
    std::vector<double> values;
    for (int64_t i = 1; i <= count; ++i) values.push_back(static_cast<double>(i));
    for (const DType dtype : {DType::f32, DType::f64}) {
      EXPECT_EQ(sum(from_values({count}, dtype, values)).item(), static_cast<double>(count * (count + 1) / 2));
    }
  }
}

TEST(Sum, NanInTheLastElementShows) {
  for (const int64_t count : {1, 17, 4096, 4097}) {
    const Tensor x = full({count}, DType::f32, 1.0);
    x.data<float>()[count - 1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(sum(x).item())) << count;
    EXPECT_TRUE(std::isnan(mean(x).item())) << count;
  }
}

TEST(Mean, GradientIsOneOverTheCount) {
  const Tensor x = full({4, 5}, DType::f32, 7.0).set_requires_grad(true);
  backward(mean(x));
  EXPECT_EQ(x.grad().values(), std::vector<double>(20, static_cast<double>(0.05f)));
}

TEST(Sum, OverADimension) {
  const Tensor x = from_values({2, 3}, DType::f32, {1, 2, 3, 10, 20, 30});
  EXPECT_EQ(sum(x, 0).values(), std::vector<double>({11, 22, 33}));
  EXPECT_EQ(sum(x, 1).values(), std::vector<double>({6, 60}));
  EXPECT_EQ(mean(x, -1).values(), std::vector<double>({2, 20}));
  EXPECT_EQ(sum(x, 0).shape(), Shape{3});
  EXPECT_EQ(sum(x, -2, true).shape(), (Shape{1, 3}));
  EXPECT_EQ(mean(x, 1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(sum(from_values({3}, DType::bf16, {1, 2, 3}), 0).dtype(), DType::bf16);
}

TEST(Sum, OverADimensionWithoutElements) {
  EXPECT_EQ(sum(zeros({2, 0}, DType::f32), 1).values(), std::vector<double>({0, 0}));
  EXPECT_EQ(sum(zeros({2, 0}, DType::f32), 0).shape(), Shape{0});
  EXPECT_EQ(sum(zeros({0, 2}, DType::f32), 0, true).values(), std::vector<double>({0, 0}));
}

// Whole numbers, whose sums are exact in any order: narrow rows (folded or too few for that), wide ones with columns
// after the last vector and the last tile, one block of rows and several.
TEST(Sum, OverADimensionOfAnySize) {
  const auto x = [](int64_t o, int64_t j, int64_t i) { return static_cast<double>((5 * o + 3 * j + i) % 7 - 3); };
  for (const auto& [outer, n, inner] : std::vector<std::array<int64_t, 3>>{{3, 1, 1},
                                                                           {3, 5, 1},
                                                                           {2, 5000, 1},
                                                                           {3, 20, 2},
                                                                           {2, 9000, 2},
                                                                           {1, 4100, 5},
                                                                           {3, 70, 63},
                                                                           {2, 2100, 63},
                                                                           {2, 7, 64},
                                                                           {3, 131, 65},
                                                                           {1, 1, 300},
                                                                           {2, 270, 300}}) {
    std::vector<double> values, sums(static_cast<size_t>(outer * inner));
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < inner; ++i) {
          values.push_back(x(o, j, i));
          sums[static_cast<size_t>(o * inner + i)] += x(o, j, i);
        }
      }
    }
    for (const DType dtype : {DType::f32, DType::f64}) {
      EXPECT_EQ(sum(from_values({outer, n, inner}, dtype, values), 1).values(), sums)
          << outer << " " << n << " " << inner;
    }
  }
}

// One running sum of a million values in f32 is 1 % off.
TEST(Sum, OverALongDimensionLosesNoDigits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const double tolerance = dtype == DType::f32 ? kF32LongSum : kBf16RoundedOnce;
    const double value = full({}, dtype, 0.1).item();
    constexpr int64_t kMany = 1'000'000;
    for (const double y : sum(full({kMany, 3}, dtype, 0.1), 0).values()) EXPECT_NEAR(y / kMany / value, 1, tolerance);
    for (const double y : sum(full({3, kMany}, dtype, 0.1), 1).values()) EXPECT_NEAR(y / kMany / value, 1, tolerance);
    for (const double y : mean(full({kMany / 10, 66}, dtype, 0.1), 0).values()) EXPECT_NEAR(y / value, 1, tolerance);
  }
}

TEST(Sum, OverADimensionHasTheSameBitsForAnyNumberOfThreads) {
  const int before = cpu::max_threads();
  for (const Shape& shape : {Shape{100'001, 3}, Shape{1000, 300}, Shape{3, 100'001}}) {
    const Tensor x = empty(shape, DType::f32);
    for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = std::sin(static_cast<float>(i));
    for (const int dim : {0, 1}) {
      cpu::set_max_threads(1);
      const std::vector<double> alone = sum(x, dim).values();
      for (const int threads : {2, 3}) {
        cpu::set_max_threads(threads);
        EXPECT_EQ(sum(x, dim).values(), alone) << shape.text() << " " << dim << " " << threads;
      }
    }
  }
  cpu::set_max_threads(before);
}

TEST(Mean, GradientOverADimension) {
  const Tensor x = full({2, 5}, DType::f32, 7.0).set_requires_grad(true);
  backward(mean(x, 1), from_values({2}, DType::f32, {5, -10}));
  EXPECT_EQ(x.grad().values(), std::vector<double>({1, 1, 1, 1, 1, -2, -2, -2, -2, -2}));
}

}  // namespace
}  // namespace heed::test
