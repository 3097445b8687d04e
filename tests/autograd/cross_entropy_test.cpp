#include "autograd/ops/cross_entropy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct LossAndGradient {
  double loss;
  Values gradient;
};

LossAndGradient run(const Shape& shape, const Values& logits, const std::vector<int32_t>& targets,
                    const CrossEntropyOptions& options = {}, DType dtype = DType::f32, double dloss = 1) {
  const Tensor x = from_values(shape, dtype, logits).set_requires_grad(true);
  const Tensor loss = cross_entropy(x, from_tokens({static_cast<int64_t>(targets.size())}, targets), options);
  backward(loss, full({}, dtype, dloss));
  return {loss.item(), x.grad().values()};
}

void expect_near(const Values& values, const Values& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], kSixDigits) << i;
}

TEST(CrossEntropy, LargeLogits) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const LossAndGradient equal = run({1, 2}, {1e8, 1e8}, {1}, {}, dtype);
    EXPECT_NEAR(equal.loss, 0.693147, kSixDigits);
    expect_near(equal.gradient, {0.5, -0.5});

    const LossAndGradient far = run({1, 3}, {-431, 279, 427}, {0}, {}, dtype);
    EXPECT_EQ(far.loss, 858);
    expect_near(far.gradient, {-1, 0, 1});

    EXPECT_NEAR(run({1, 4}, Values(4, -200), {2}, {}, dtype).loss, 1.386294, kSixDigits);
    EXPECT_EQ(run({1, 2}, {0, -200}, {1}, {}, dtype).loss, 200);
    const double largest = std::numeric_limits<float>::max();
    EXPECT_NEAR(run({1, 2}, {largest, largest}, {0}, {}, dtype).loss, 0.693147, kSixDigits);
    EXPECT_EQ(run({1, 2}, {-largest, largest}, {1}, {}, dtype).loss, 0);
  }
}

TEST(CrossEntropy, PaddedColumnsDoNotCount) {
  constexpr int64_t kVocab = 65, kStored = 128;
  for (const double padding : {0.0, 1e30, kNan, kInf}) {
    Values logits(3 * kStored, 0);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<int64_t>(i) % kStored < kVocab ? 0 : padding;
    const LossAndGradient result = run({3, kStored}, logits, {0, 64, -1}, {.vocab = kVocab});
    EXPECT_NEAR(result.loss, 4.174387, kSixDigits);
    for (size_t i = 0; i < logits.size(); ++i) {
      const bool counts = static_cast<int64_t>(i) % kStored < kVocab && i < 2 * kStored;
      EXPECT_EQ(result.gradient[i] != 0, counts) << i << " is " << result.gradient[i];
    }
  }
}

TEST(CrossEntropy, AllIgnoredIsZeroWithoutNan) {
  for (const double denominator : {0.0, 12.0}) {
    const LossAndGradient result = run({2, 3}, {1, 2, 3, 4, 5, 6}, {-1, -1}, {.denominator = denominator});
    EXPECT_EQ(result.loss, 0);
    EXPECT_EQ(result.gradient, Values(6, 0));
  }
  EXPECT_EQ(run({0, 3}, {}, {}).loss, 0);
}

// Micro-batches whose losses are divided by the targets of the whole step add up to it.
TEST(CrossEntropy, PartsOfAStepAddUp) {
  const Values logits{1, 2, 0.5, -1, 3, 0.25, 2, 2, 2, 0, -4, 1};
  const std::vector<int32_t> targets{0, -1, 2, 1};
  const LossAndGradient whole = run({4, 3}, logits, targets);
  LossAndGradient sum{};
  for (int part = 0; part < 2; ++part) {
    const Values half(logits.begin() + part * 6, logits.begin() + part * 6 + 6);
    const LossAndGradient one = run({2, 3}, half, {targets[2 * part], targets[2 * part + 1]}, {.denominator = 3});
    sum.loss += one.loss;
    sum.gradient.insert(sum.gradient.end(), one.gradient.begin(), one.gradient.end());
  }
  EXPECT_NEAR(sum.loss, whole.loss, kSixDigits);
  EXPECT_EQ(sum.gradient, whole.gradient);
}

TEST(CrossEntropy, NanShowsUnlessItIsIgnored) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (size_t place = 0; place < 3; ++place) {
      Values logits{1, 2, 3, 4, 5, 6};
      logits[3 + place] = kNan;
      const LossAndGradient seen = run({2, 3}, logits, {0, 1}, {}, dtype);
      EXPECT_TRUE(std::isnan(seen.loss));
      for (size_t i = 0; i < 6; ++i) EXPECT_EQ(std::isnan(seen.gradient[i]), i >= 3) << i;
      const LossAndGradient ignored = run({2, 3}, logits, {0, -1}, {}, dtype);
      EXPECT_TRUE(std::isfinite(ignored.loss));
      for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(i < 3 ? ignored.gradient[i] != 0 : ignored.gradient[i] == 0) << i;
    }
    EXPECT_FALSE(std::isfinite(run({1, 3}, {1, kInf, 3}, {0}, {}, dtype).loss));
    EXPECT_FALSE(std::isfinite(run({1, 2}, {-kInf, -kInf}, {0}, {}, dtype).loss));
    EXPECT_EQ(run({1, 3}, {1, -kInf, 3}, {1}, {}, dtype).loss, kInf);
    EXPECT_NEAR(run({1, 3}, {1, -kInf, 1}, {0}, {}, dtype).loss, std::log(2), kSixDigits);
  }
}

TEST(CrossEntropy, NanInTheGradientOfTheLossShows) {
  const LossAndGradient result = run({2, 3}, {1, 2, 3, 4, 5, 6}, {0, -1}, {}, DType::f32, kNan);
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(i < 3 ? std::isnan(result.gradient[i]) : result.gradient[i] == 0) << i;
}

}  // namespace
}  // namespace heed::test
