// The gradients of plain references, on which the tests of all operations rest.
#include "autograd/check/scalar_tape.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using D = Var<double>;

std::vector<double> gradient(const std::vector<double>& at, const std::function<D(const std::vector<D>&)>& f) {
  std::vector<D> leaves;
  for (const double value : at) leaves.push_back(D::leaf(value));
  return D::gradients({f(leaves)}, {1.0}, leaves);
}

void expect_gradient(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], kF64 * std::abs(want[i])) << i;
}

TEST(ScalarTape, EachOperationHasItsDerivative) {
  const std::vector<double> at{0.7, -1.3};
  expect_gradient(gradient(at, [](const auto& x) { return x[0] + x[1]; }), {1, 1});
  expect_gradient(gradient(at, [](const auto& x) { return x[0] - x[1]; }), {1, -1});
  expect_gradient(gradient(at, [](const auto& x) { return x[0] * x[1]; }), {-1.3, 0.7});
  expect_gradient(gradient(at, [](const auto& x) { return x[0] / x[1]; }), {1 / -1.3, -0.7 / (1.3 * 1.3)});
  expect_gradient(gradient({0.7}, [](const auto& x) { return exp(x[0]); }), {std::exp(0.7)});
  expect_gradient(gradient({0.7}, [](const auto& x) { return log(x[0]); }), {1 / 0.7});
  expect_gradient(gradient({0.7}, [](const auto& x) { return sqrt(x[0]); }), {0.5 / std::sqrt(0.7)});
  expect_gradient(gradient({0.7}, [](const auto& x) { return tanh(x[0]); }), {1 / (std::cosh(0.7) * std::cosh(0.7))});
  expect_gradient(gradient({0.7}, [](const auto& x) { return erf(x[0]); }), {2 / std::sqrt(M_PI) * std::exp(-0.49)});
}

TEST(ScalarTape, ValuesAreThoseOfTheFunctions) {
  const D x = D::leaf(0.7), y = D::leaf(-1.3);
  EXPECT_EQ((x + y).value(), 0.7 + -1.3);
  EXPECT_EQ((x - y).value(), 0.7 - -1.3);
  EXPECT_EQ((x * y).value(), 0.7 * -1.3);
  EXPECT_EQ((x / y).value(), 0.7 / -1.3);
  EXPECT_DOUBLE_EQ(exp(x).value(), std::exp(0.7));
  EXPECT_DOUBLE_EQ(log(x).value(), std::log(0.7));
  EXPECT_DOUBLE_EQ(sqrt(x).value(), std::sqrt(0.7));
  EXPECT_DOUBLE_EQ(tanh(x).value(), std::tanh(0.7));
  EXPECT_DOUBLE_EQ(erf(x).value(), std::erf(0.7));
  EXPECT_TRUE(y < x);
  EXPECT_TRUE(x > y);
  EXPECT_FALSE(x < x);
  D::gradients({}, {}, {});  // forget all
}

TEST(ScalarTape, SumsOverAllPaths) {
  // f = (x y + x)^2 with x y used twice: df/dx = 2 (x y + x) (y + 1), df/dy = 2 (x y + x) x.
  const auto f = [](const std::vector<D>& x) {
    const D inner = x[0] * x[1] + x[0];
    return inner * inner;
  };
  expect_gradient(gradient({2, 3}, f), {64, 32});
  const auto accumulated = [](const std::vector<D>& x) {
    D sum = 0;
    for (int i = 0; i < 5; ++i) sum += x[0] * x[0];
    return sum;
  };
  expect_gradient(gradient({3}, accumulated), {30});
}

TEST(ScalarTape, CotangentWeighsOutputs) {
  const D x = D::leaf(2);
  const std::vector<D> outputs{x * x, x, D(7)};
  EXPECT_EQ(D::gradients(outputs, {10, 100, 1000}, {x}), (std::vector<double>{10 * 4 + 100}));
}

TEST(ScalarTape, ConstantsAndUnusedLeavesHaveNone) {
  expect_gradient(gradient({2, 5}, [](const auto& x) { return x[0] * D(3) + D(4) * D(5); }), {3, 0});
  expect_gradient(gradient({2}, [](const auto&) { return D(4); }), {0});
}

TEST(ScalarTape, ForgetsAfterEachGradient) {
  for (int pass = 0; pass < 2; ++pass) expect_gradient(gradient({3}, [](const auto& x) { return x[0] * x[0]; }), {6});
}

TEST(ScalarTape, F32RoundsLikeF32) {
  using F = Var<float>;
  const F x = F::leaf(0.1f);
  const F y = x * x;
  EXPECT_EQ(y.value(), 0.1f * 0.1f);
  EXPECT_EQ(F::gradients({y}, {1.0f}, {x})[0], 0.1f + 0.1f);
}

}  // namespace
}  // namespace heed::test
