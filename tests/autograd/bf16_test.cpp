#include "autograd/core/dtype.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear.hpp"
#include "autograd/tape.hpp"

namespace heed::test {
namespace {

TEST(Bf16, RoundsToNearestEvenAndKeepsWhatIsNotFinite) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kStep = 1.0f / 128;
  EXPECT_EQ(Bf16(1.0f + 0.5f * kStep), 1.0f) << "a tie goes to the even neighbour";
  EXPECT_EQ(Bf16(1.0f + 1.5f * kStep), 1.0f + 2 * kStep);
  EXPECT_EQ(Bf16(1.0f + 0.51f * kStep), 1.0f + kStep);
  EXPECT_EQ(Bf16(-kInf), -kInf);
  EXPECT_EQ(Bf16(std::numeric_limits<float>::max()), kInf);
  EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(std::bit_cast<float>(0x7F800001u)))));
  EXPECT_TRUE(std::signbit(static_cast<float>(Bf16(-0.0f))));
}

// Gradients of bf16 parameters are summed in f32, those of bf16 tensors on the way stay bf16.
TEST(Tape, Bf16ParametersHaveF32Gradients) {
  const Tensor weight = from_values({1, 1}, DType::bf16, {3}), x = from_values({1, 1}, DType::bf16, {1});
  const Tensor sum = from_values({1, 1}, DType::f32, {1.0 / 1024});
  weight.set_requires_grad(true).set_grad(sum);
  backward(linear(x, weight, Tensor()));
  EXPECT_EQ(sum.item(), 1 + 1.0 / 1024) << "bf16 would have lost the small part";
  backward(mul(weight, x));  // an operation that gives a bf16 gradient
  EXPECT_EQ(sum.item(), 2 + 1.0 / 1024);
  weight.reset_grad();
  backward(mul(weight, x));
  EXPECT_EQ(sum.item(), 1);

  const Tensor leaf = from_values({1, 1}, DType::bf16, {2}).set_requires_grad(true);
  backward(linear(x, scale(leaf, 3), Tensor()));
  ASSERT_EQ(leaf.grad().dtype(), DType::bf16);
  EXPECT_EQ(leaf.grad().item(), 3);
  backward(linear(x, leaf, Tensor()));
  EXPECT_EQ(leaf.grad().item(), 4);
}

// Inside recompute() the gradient of a matrix is f32, outside the matrix is the bf16 result of an operation.
TEST(Recompute, GivesABf16ResultABf16Gradient) {
  const auto gradient = [](bool recomputed) {
    const Tensor m = from_values({3, 2}, DType::bf16, {1, 2, 3, 4, 5, 6}).set_requires_grad(true);
    const Tensor x = from_values({2, 2}, DType::bf16, {2, 3, 3, 4});
    const auto product = [](const std::vector<Tensor>& in) { return linear(in[0], in[1], Tensor()); };
    const std::vector<Tensor> inputs{x, scale(m, 2)};
    const Tensor y = recomputed ? recompute(product, inputs) : product(inputs);
    backward(y, full(y.shape(), y.dtype(), 1));
    return m.grad().values();
  };
  EXPECT_EQ(gradient(false), (std::vector<double>{10, 14, 10, 14, 10, 14}));
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(AnomalyMode, TurnedOnBeforeBackwardStillNamesTheOperation) {
  const Tensor x = full({2}, DType::f32, 1).set_requires_grad(true);
  const Tensor y = gelu(scale(x, 2));
  set_detect_anomaly(true);
  try {
    backward(y, full(y.shape(), DType::f32, std::numeric_limits<double>::quiet_NaN()));
    ADD_FAILURE() << "no anomaly";
  } catch (const DivergedError& error) {
    EXPECT_NE(std::string(error.what()).find("'gelu'"), std::string::npos) << error.what();
  }
  set_detect_anomaly(false);
}

}  // namespace
}  // namespace heed::test
