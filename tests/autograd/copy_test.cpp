#include "autograd/ops/copy.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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
