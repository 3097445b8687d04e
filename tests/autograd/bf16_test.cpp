#include "autograd/core/bf16.hpp"

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

  const Tensor leaf = from_values({1, 1}, DType::bf16, {2}).set_requires_grad(true);
  backward(linear(x, scale(leaf, 3), Tensor()));
  ASSERT_EQ(leaf.grad().dtype(), DType::bf16);
  EXPECT_EQ(leaf.grad().item(), 3);
  backward(linear(x, leaf, Tensor()));
  EXPECT_EQ(leaf.grad().item(), 4);
}

}  // namespace
}  // namespace heed::test
