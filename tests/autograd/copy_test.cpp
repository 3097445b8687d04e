#include "autograd/ops/copy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

TEST(Copy, HasMemoryOfItsOwn) {
  const Tensor x = full({3}, DType::f32, 1.0);
  const Tensor y = copy(x);
  x.data<float>()[0] = 9;
  EXPECT_EQ(y.values(), Values(3, 1));
}

TEST(Copy, TakesTokensAndEmptyTensors) {
  EXPECT_EQ(copy(from_tokens({2}, {4, -5})).values(), Values({4, -5}));
  EXPECT_EQ(copy(zeros({0, 3}, DType::f64)).shape(), Shape({0, 3}));
}

TEST(Reshape, HasMemoryOfItsOwn) {
  const Tensor x = full({2, 3}, DType::f32, 1.0);
  const Tensor y = reshape(x, {3, 2});
  x.data<float>()[0] = 9;
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_EQ(y.values(), Values(6, 1));
}

TEST(Reshape, OneDimensionFromTheOthers) {
  const Tensor x = from_tokens({2, 6}, std::vector<int32_t>(12, 3));
  EXPECT_EQ(reshape(x, {-1}).shape(), Shape{12});
  EXPECT_EQ(reshape(x, {3, -1, 2}).shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(reshape(x, {12, -1}).shape(), (Shape{12, 1}));
  EXPECT_EQ(reshape(zeros({0, 3}, DType::f32), {-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_EQ(reshape(full({1}, DType::f32, 2.0), {}).item(), 2);
}

// The gradient is an alias of dy in another shape: adding to it must not change dy, which others use.
TEST(Reshape, GradientsOfTwoUsesAreSummed) {
  const Tensor x = from_values({2, 2}, DType::f32, {1, 2, 3, 4}).set_requires_grad(true);
  const Tensor y = copy(x);
  const Tensor flat = reshape(y, {4});
  backward(add(flat, add(flat, reshape(y, {-1}))), from_values({4}, DType::f32, {1, 10, 100, 1000}));
  EXPECT_EQ(x.grad().shape(), (Shape{2, 2}));
  EXPECT_EQ(x.grad().values(), Values({3, 30, 300, 3000}));
}

TEST(Cast, RoundsAndKeepsNanAndInf) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const Tensor x = from_values({5}, DType::f64, {0.1, 1e300, -1e300, kInf, std::numeric_limits<double>::quiet_NaN()});
  const Tensor y = cast(x, DType::f32);
  EXPECT_EQ(y.dtype(), DType::f32);
  const Values values = y.values();
  EXPECT_EQ(values[0], static_cast<double>(0.1f));
  EXPECT_EQ(values[1], kInf);
  EXPECT_EQ(values[2], -kInf);
  EXPECT_EQ(values[3], kInf);
  EXPECT_TRUE(std::isnan(values[4]));
  EXPECT_EQ(cast(y, DType::f64).values()[0], static_cast<double>(0.1f));
}

TEST(Cast, GradientHasTheDtypeOfTheInput) {
  const Tensor x = full({2}, DType::f64, 1.0).set_requires_grad(true);
  backward(cast(x, DType::f32), from_values({2}, DType::f32, {3, 4}));
  EXPECT_EQ(x.grad().dtype(), DType::f64);
  EXPECT_EQ(x.grad().values(), Values({3, 4}));
}

}  // namespace
}  // namespace heed::test
