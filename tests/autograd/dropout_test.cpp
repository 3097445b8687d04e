#include "autograd/ops/dropout.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "autograd/tape.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

RandomStream stream(uint32_t layer = 1, uint32_t place = 2, uint64_t step = 7) {
  return {.seed = 42, .site = random_site(RandomDomain::dropout, layer, place), .step = step};
}

// "0110" per row: which elements of a tensor of ones are kept.
std::string mask(const Shape& shape, double p, const RandomStream& random, int64_t first_row,
                 DType dtype = DType::f32) {
  std::string bits;
  for (const double v : dropout(full(shape, dtype, 1.0), p, random, first_row).values()) bits += v == 0 ? '0' : '1';
  return bits;
}

double share_kept(const std::string& bits) {
  return static_cast<double>(std::count(bits.begin(), bits.end(), '1')) / static_cast<double>(bits.size());
}

double share_equal(const std::string& a, const std::string& b) {
  std::string equal;
  for (size_t i = 0; i < a.size(); ++i) equal += a[i] == b[i] ? '1' : '0';
  return share_kept(equal);
}

// Five standard deviations of a share of n elements with this probability.
double five_sigma(int64_t n, double probability = 0.5) {
  return 5 * std::sqrt(probability * (1 - probability) / static_cast<double>(n));
}

// Computed apart from this code; every backend must give these.
TEST(Dropout, MaskIsPinned) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    EXPECT_EQ(mask({4, 5}, 0.3, stream(), 10, dtype),
              "11011"
              "10111"
              "11110"
              "11101");
    EXPECT_EQ(mask({2, 24}, 0.5, stream(), 3, dtype),
              "101011101100111000111011"
              "011101111110110000110111");
    EXPECT_EQ(mask({3, 11}, 0.5, stream(), 3, dtype),
              "00010010010"
              "00011111101"
              "11001110001");
  }
}

TEST(Dropout, GradientHasTheMaskOfTheForward) {
  const Tensor x = full({10000}, DType::f32, 1.0).set_requires_grad(true);
  const Tensor y = dropout(x, 0.5, stream(), 0);
  for (const double v : y.values()) EXPECT_TRUE(v == 0 || v == 2) << v;
  backward(y, full({10000}, DType::f32, 1.0));
  EXPECT_EQ(x.grad().values(), y.values());
}

TEST(Dropout, KeepsTheShare) {
  for (const double p : {0.1, 0.2, 0.5, 0.9}) {
    const double keep = 1 - dropout_rate(p);
    EXPECT_NEAR(share_kept(mask({1000, 1000}, p, stream(), 0)), keep, five_sigma(1'000'000, keep)) << p;
  }
}

// Adjacent elements are halves of one word, or the last half of a word and the first of the next one.
TEST(Dropout, AdjacentElementsAreIndependent) {
  for (const double p : {0.1, 0.2, 0.5}) {
    const std::string bits = mask({1000, 1000}, p, stream(), 0);
    for (const size_t first : {0, 1}) {
      std::string both;
      for (size_t i = first; i + 1 < bits.size(); i += 2) both += bits[i] == '1' && bits[i + 1] == '1' ? '1' : '0';
      const double keep = (1 - dropout_rate(p)) * (1 - dropout_rate(p));
      EXPECT_NEAR(share_kept(both), keep, five_sigma(static_cast<int64_t>(both.size()), keep)) << p << ' ' << first;
    }
  }
}

TEST(Dropout, OtherPlacesLayersStepsAndRowsHaveOtherMasks) {
  const Shape shape{100, 100};
  const std::string first = mask(shape, 0.5, stream(), 0);
  EXPECT_EQ(first, mask(shape, 0.5, stream(), 0));
  for (const std::string& other : {mask(shape, 0.5, stream(2, 2, 7), 0), mask(shape, 0.5, stream(1, 3, 7), 0),
                                   mask(shape, 0.5, stream(1, 2, 8), 0), mask(shape, 0.5, stream(), 100)}) {
    EXPECT_NEAR(share_equal(first, other), 0.5, five_sigma(10000));
  }
}

// Rows of the global batch have their masks, however it is cut.
TEST(Dropout, MaskDoesNotDependOnTheSplitOfTheBatch) {
  for (const int64_t columns : {5, 64, 1030}) {
    const std::string whole = mask({4, 3, columns}, 0.4, stream(), 9);
    std::string parts;
    for (int64_t part = 0; part < 4; ++part) parts += mask({3, columns}, 0.4, stream(), 9 + 3 * part);
    EXPECT_EQ(whole, parts) << columns;
  }
}

TEST(Dropout, RowsFarBehindTwoToThe32Differ) {
  const int64_t far = int64_t{1} << 40;
  EXPECT_NE(mask({1, 64}, 0.5, stream(), 0), mask({1, 64}, 0.5, stream(), far));
  EXPECT_EQ(mask({2, 64}, 0.5, stream(), far).substr(64), mask({1, 64}, 0.5, stream(), far + 1));
}

TEST(Dropout, ZeroChangesNoBit) {
  const Tensor x = from_values({4}, DType::f32, {-0.0, 1e-40, 3, std::numeric_limits<double>::infinity()});
  for (const double p : {0.0, 0x1p-18}) {
    const Tensor y = dropout(x, p, stream(), 0);
    EXPECT_EQ(0, std::memcmp(x.data<float>(), y.data<float>(), 4 * sizeof(float)));
  }
}

TEST(Dropout, ZeroPassesTheGradient) {
  const Tensor x = full({3}, DType::f32, 2.0).set_requires_grad(true);
  const Tensor residual = full({3}, DType::f32, 5.0).set_requires_grad(true);
  const Tensor y = dropout_add(dropout(x, 0, stream(), 0), residual, 0, stream(), 0);
  EXPECT_EQ(y.values(), Values(3, 7));
  backward(y, from_values({3}, DType::f32, {1, 2, 3}));
  EXPECT_EQ(x.grad().values(), Values({1, 2, 3}));
  EXPECT_EQ(residual.grad().values(), Values({1, 2, 3}));
}

TEST(Dropout, OneGivesZeros) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = from_values({2}, dtype, {4, std::numeric_limits<double>::infinity()}).set_requires_grad(true);
    const Tensor residual = full({2}, dtype, 5.0).set_requires_grad(true);
    EXPECT_EQ(dropout(x, 1, stream(), 0).values(), Values({0, 0}));
    EXPECT_EQ(dropout(x, 1 - 0x1p-18, stream(), 0).values(), Values({0, 0}));
    const Tensor y = dropout_add(x, residual, 1, stream(), 0);
    EXPECT_EQ(y.values(), Values({5, 5}));
    backward(y, full({2}, dtype, 3.0));
    EXPECT_EQ(x.grad().values(), Values({0, 0}));
    EXPECT_EQ(residual.grad().values(), Values({3, 3}));
  }
}

TEST(Dropout, NanShowsWhereItIsKept) {
  const Shape shape{3, 50};
  const std::string kept = mask(shape, 0.5, stream(), 0);
  const Tensor x = full(shape, DType::f32, std::numeric_limits<double>::quiet_NaN()).set_requires_grad(true);
  const Tensor y = dropout(x, 0.5, stream(), 0);
  backward(y, full(shape, DType::f32, std::numeric_limits<double>::quiet_NaN()));
  const Values values = y.values(), gradient = x.grad().values();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::isnan(values[i]), kept[i] == '1') << i;
    EXPECT_EQ(std::isnan(gradient[i]), kept[i] == '1') << i;
  }
}

TEST(Dropout, ThresholdIsRounded) {
  EXPECT_EQ(dropout_threshold(0), 0u);
  EXPECT_EQ(dropout_threshold(0x1p-18), 0u);
  EXPECT_EQ(dropout_threshold(0.1), 6554u);  // 6553.6
  EXPECT_EQ(dropout_threshold(1 - 0x1p-18), 65536u);
  EXPECT_EQ(dropout_threshold(1), 65536u);
}

// What is kept is divided by the share that is kept at the rounded rate, so that its expectation is exact.
TEST(Dropout, ScaleIsThatOfTheRateDrawn) {
  EXPECT_EQ(dropout_rate(0.1), 6554.0 / 65536);
  EXPECT_EQ(dropout_scale(0.1), 65536.0 / (65536 - 6554));
  EXPECT_EQ(dropout_scale(0), 1.0);
  EXPECT_EQ(dropout_scale(1), 0.0);
  for (const double v : dropout(full({100}, DType::f64, 1.0), 0.1, stream(), 0).values()) {
    EXPECT_TRUE(v == 0 || v == dropout_scale(0.1)) << v;
  }
}

}  // namespace
}  // namespace heed::test
