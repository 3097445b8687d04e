#include "autograd/ops/elementwise.hpp"

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

Tensor leaf(const Values& values, DType dtype = DType::f32) {
  return from_values({static_cast<int64_t>(values.size())}, dtype, values).set_requires_grad(true);
}

Values gradient(Tensor (*operation)(const Tensor&), const Values& x, const Values& dy, DType dtype = DType::f32) {
  const Tensor input = leaf(x, dtype);
  backward(operation(input), from_values(input.shape(), dtype, dy));
  return input.grad().values();
}

TEST(Gelu, KnownValues) {
  const Values y = gelu(leaf({0, 1, -1, 3, -3})).values();
  const Values expected{0, 0.841192, -0.158808, 2.996363, -0.003637};
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], kSixDigits);
}

// x^3 overflows long before x does.
TEST(Gelu, LargeValuesAreTheLineOrZero) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const double huge = dtype == DType::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
    for (const double x : {31.0, 1e4, 1e15, 1e30, huge}) {
      EXPECT_EQ(gelu(leaf({x, -x}, dtype)).values(), Values({static_cast<double>(leaf({x}, dtype).item()), 0})) << x;
      EXPECT_EQ(gradient(gelu, {x, -x}, {1, 1}, dtype), Values({1, 0})) << x;
    }
  }
}

TEST(Gelu, NanAndInfStay) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Values y = gelu(leaf({kNan, kInf}, dtype)).values();
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], kInf);
    EXPECT_TRUE(std::isnan(gradient(gelu, {kNan}, {1}, dtype)[0]));
    EXPECT_TRUE(std::isnan(gradient(gelu, {-40}, {kNan}, dtype)[0]));
  }
}

TEST(GeluErf, KnownValues) {
  const Values y = gelu_erf(leaf({0, 1, -1, 3, -3})).values();
  const Values expected{0, 0.841345, -0.158655, 2.995950, -0.004050};
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], kSixDigits);
}

// Relative to the value, also where it is the small difference of 1 and erf. The rounding of the exponent x^2 / 2
// counts x^2 / 2 times in the result, and again that of its reduction in exp().
TEST(GeluErf, KeepsItsDigitsInTheTail) {
  const auto check = [](DType dtype, double least, double epsilon) {
    for (double x = least; x < 8; x += 0.01) {
      const Tensor input = leaf({x}, dtype);
      const double rounded = input.item(), phi = 0.5 * std::erfc(-rounded / std::sqrt(2.0));
      const double bound = epsilon * (4 + 2 * rounded * rounded);
      EXPECT_NEAR(gelu_erf(input).item(), rounded * phi, bound * std::abs(rounded * phi)) << x;
      const double density = std::exp(-rounded * rounded / 2) / std::sqrt(2 * M_PI);
      EXPECT_NEAR(gradient(gelu_erf, {x}, {1}, dtype)[0], phi + rounded * density,
                  bound * (phi + std::abs(rounded) * density))
          << x;
    }
  };
  check(DType::f32, -12, kF32Epsilon);
  check(DType::f64, -35, std::numeric_limits<double>::epsilon());
}

TEST(Activations, NanAndInfStay) {
  for (const auto activation : {gelu_erf, silu, relu2}) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const Values y = activation(leaf({kNan, kInf, 1e30, -1e30}, dtype)).values();
      EXPECT_TRUE(std::isnan(y[0]));
      EXPECT_EQ(y[1], kInf);
      EXPECT_GT(y[2], 9e29);
      EXPECT_EQ(y[3], 0);
      EXPECT_TRUE(std::isnan(gradient(activation, {kNan}, {1}, dtype)[0]));
      EXPECT_TRUE(std::isnan(gradient(activation, {1}, {kNan}, dtype)[0]));
      EXPECT_EQ(gradient(activation, {-1e3}, {1}, dtype)[0], 0);
    }
  }
}

TEST(Silu, KnownValuesAndTheLineFarOut) {
  const Values y = silu(leaf({0, 1, -1})).values(), expected{0, 0.731059, -0.268941};
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], kSixDigits);
  EXPECT_EQ(gradient(silu, {0, 1e4, 1e30}, {1, 1, 1}), Values({0.5, 1, 1}));
}

TEST(Relu2, TheSquareAboveZero) {
  const Values x{-3, -0.0, 0, 0.5, 3};
  EXPECT_EQ(relu2(leaf(x)).values(), Values({0, 0, 0, 0.25, 9}));
  EXPECT_EQ(gradient(relu2, x, Values(5, 3)), Values({0, 0, 0, 3, 18}));
}

TEST(Relu, ZeroBelowAndAtZero) {
  const Values x{-kInf, -1, -0.0, 0, 2, kInf};
  EXPECT_EQ(relu(leaf(x)).values(), Values({0, 0, 0, 0, 2, kInf}));
  EXPECT_EQ(gradient(relu, x, Values(6, 3)), Values({0, 0, 0, 0, 3, 3}));
}

TEST(Relu, NanShowsInTheResultAndTheGradient) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Values y = relu(leaf({kNan, -1}, dtype)).values();
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], 0);
    EXPECT_TRUE(std::isnan(gradient(relu, {kNan}, {1}, dtype)[0]));
    EXPECT_TRUE(std::isnan(gradient(relu, {1}, {kNan}, dtype)[0]));
  }
}

TEST(Add, OneTensorTwiceHasTwiceTheGradient) {
  const Tensor x = leaf({1, 2, 3});
  backward(add(x, x), from_values({3}, DType::f32, {1, 10, 100}));
  EXPECT_EQ(x.grad().values(), Values({2, 20, 200}));
}

// The gradient of a sum is one tensor for both sides: adding to one of them must not change the other.
TEST(Add, SidesDoNotShareTheirGradients) {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensor a2 = scale(a, 2), b2 = scale(b, 3);
  backward(add(add(a2, b2), a2), from_values({2}, DType::f32, {1, 10}));
  EXPECT_EQ(a.grad().values(), Values({4, 40}));
  EXPECT_EQ(b.grad().values(), Values({3, 30}));
}

TEST(Mul, OneTensorTwice) {
  const Tensor x = leaf({3, -5});
  backward(mul(x, x), from_values({2}, DType::f32, {1, 1}));
  EXPECT_EQ(x.grad().values(), Values({6, -10}));
}

TEST(Sub, ATensorAndItselfHaveNoGradient) {
  const Tensor x = leaf({3, -5});
  const Tensor y = scale(x, 1);
  backward(sub(y, y), from_values({2}, DType::f32, {1, 10}));
  EXPECT_EQ(x.grad().values(), Values({0, 0}));
}

TEST(Div, ByZeroAsInIeee754) {
  const Values y = div(leaf({1, -1, 0}), leaf({0, 0, 0})).values();
  EXPECT_EQ(y[0], kInf);
  EXPECT_EQ(y[1], -kInf);
  EXPECT_TRUE(std::isnan(y[2]));
}

// b^2 would be Inf.
TEST(Div, GradientOfALargeDivisor) {
  const Tensor a = leaf({1e30}), b = leaf({1e25});
  backward(div(a, b), from_values({1}, DType::f32, {1}));
  EXPECT_NEAR(b.grad().item() * 1e20, -1, kF32);
}

TEST(Log, ZeroNegativeAndInf) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Values y = log(leaf({1, 0, -0.0, -1, kInf, kNan}, dtype)).values();
    EXPECT_EQ(Values({y[0], y[1], y[2], y[4]}), Values({0, -kInf, -kInf, kInf}));
    EXPECT_TRUE(std::isnan(y[3]));
    EXPECT_TRUE(std::isnan(y[5]));
    EXPECT_EQ(gradient(log, {4, 0}, {1, 1}, dtype), Values({0.25, kInf}));
  }
}

TEST(Exp, Limits) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Values y = exp(leaf({0, -kInf, kInf, 1e4, -1e4, kNan}, dtype)).values();
    EXPECT_EQ(Values(y.begin(), y.end() - 1), Values({1, 0, kInf, kInf, 0}));
    EXPECT_TRUE(std::isnan(y[5]));
  }
}

TEST(Tanh, LimitsAndTheirGradients) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Values x{0, 50, -50, kInf, -kInf};
    EXPECT_EQ(tanh(leaf(x, dtype)).values(), Values({0, 1, -1, 1, -1}));
    EXPECT_EQ(gradient(tanh, x, Values(5, 3), dtype), Values({3, 0, 0, 0, 0}));
    EXPECT_TRUE(std::isnan(tanh(leaf({kNan}, dtype)).item()));
    EXPECT_TRUE(std::isnan(gradient(tanh, {kNan}, {1}, dtype)[0]));
  }
}

TEST(Sigmoid, LimitsAndTheirGradients) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Values x{0, 800, -800, kInf, -kInf};
    EXPECT_EQ(sigmoid(leaf(x, dtype)).values(), Values({0.5, 1, 0, 1, 0}));
    EXPECT_EQ(gradient(sigmoid, x, Values(5, 4), dtype), Values({1, 0, 0, 0, 0}));
    EXPECT_TRUE(std::isnan(sigmoid(leaf({kNan}, dtype)).item()));
  }
}

TEST(Scale, ByZeroKeepsNan) {
  const Values y = scale(leaf({1, kNan}), 0).values();
  EXPECT_EQ(y[0], 0);
  EXPECT_TRUE(std::isnan(y[1]));
}

}  // namespace
}  // namespace heed::test
