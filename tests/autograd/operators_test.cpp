// The operators, through the header that programs include.
#include <gtest/gtest.h>

#include "autograd/autograd.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

Tensor leaf(const Values& values, DType dtype = DType::f32) {
  return from_values({static_cast<int64_t>(values.size())}, dtype, values).set_requires_grad(true);
}

// The values of f(x), and after it the gradient of their sum.
Values value_and_gradient(Tensor (*f)(const Tensor&), const Values& values, DType dtype = DType::f32) {
  const Tensor x = leaf(values, dtype);
  const Tensor y = f(x);
  EXPECT_EQ(y.dtype(), dtype);
  EXPECT_EQ(y.shape(), x.shape());
  backward(y, full(y.shape(), dtype, 1.0));
  Values result = y.values();
  for (const double g : x.grad().values()) result.push_back(g);
  return result;
}

TEST(Operators, OfTwoTensors) {
  const Tensor a = leaf({6, -8}), b = leaf({2, 4});
  EXPECT_EQ((a + b).values(), Values({8, -4}));
  EXPECT_EQ((a - b).values(), Values({4, -12}));
  EXPECT_EQ((a * b).values(), Values({12, -32}));
  EXPECT_EQ((a / b).values(), Values({3, -2}));
  EXPECT_EQ((-a).values(), Values({-6, 8}));
}

TEST(Operators, OfATensorAndANumber) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const auto expect = [&](Tensor (*f)(const Tensor&), const Values& expected) {
      EXPECT_EQ(value_and_gradient(f, {2, -4}, dtype), expected);
    };
    expect([](const Tensor& x) { return x + 3.0; }, {5, -1, 1, 1});
    expect([](const Tensor& x) { return 3.0 + x; }, {5, -1, 1, 1});
    expect([](const Tensor& x) { return x - 3.0; }, {-1, -7, 1, 1});
    expect([](const Tensor& x) { return 3.0 - x; }, {1, 7, -1, -1});
    expect([](const Tensor& x) { return x * 3.0; }, {6, -12, 3, 3});
    expect([](const Tensor& x) { return 3.0 * x; }, {6, -12, 3, 3});
    expect([](const Tensor& x) { return x / 4.0; }, {0.5, -1, 0.25, 0.25});
    expect([](const Tensor& x) { return 8.0 / x; }, {4, -2, -2, -0.5});
    expect([](const Tensor& x) { return -x; }, {-2, 4, -1, -1});
    expect([](const Tensor& x) { return 2 * x + 1; }, {5, -7, 2, 2});  // integers
  }
}

// A factor of 1/3 has 24 bits also where the tensor has 8: only the result is rounded to bf16.
TEST(Operators, ANumberKeepsItsDigitsInBf16) {
  const Tensor x = full({1}, DType::bf16, 3.0);
  EXPECT_EQ((x * (1.0 / 3)).item(), 1.0);
  EXPECT_EQ((x / 3).item(), 1.0);
  EXPECT_EQ((x + 0.001).item(), 3.0);
}

TEST(Operators, ANumberOverAScalarAndAnEmptyTensor) {
  EXPECT_EQ((1.0 / full({}, DType::f64, 4.0)).item(), 0.25);
  EXPECT_EQ((1.0 / zeros({0, 3}, DType::f32)).shape(), (Shape{0, 3}));
}

TEST(Operators, ErrorsAreThoseOfTheOperation) {
  const auto text = [](const std::function<void()>& run) {
    try {
      run();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const Tensor a = zeros({2, 3}, DType::f32), b = zeros({2}, DType::f32), c = zeros({2, 3}, DType::bf16);
  EXPECT_EQ(text([&] { a - b; }).find("sub: a has shape (2, 3) but b has shape (2): in dimension -1"), 0u);
  EXPECT_EQ(text([&] { a / c; }), "div: a is f32 but b is bf16");
  EXPECT_EQ(text([] { from_tokens({1}, {1}) * 2.0; }), "scale: x is i32, it must be f32, bf16 or f64");
  EXPECT_EQ(text([] { 2.0 / from_tokens({1}, {1}); }), "div: x is i32, it must be f32, bf16 or f64");
}

// A small network with a loss, as a program would write it.
TEST(Operators, GradientsOfAnExpression) {
  const Tensor x = from_values({3, 2}, DType::f64, {0.5, -1, 1.5, 2, -0.3, 0.7}), w = leaf({0.3, -0.2}, DType::f64),
               b = leaf({0.1}, DType::f64), y = from_values({3}, DType::f64, {1, 0, 1});
  const auto loss = [&] {
    const Tensor p = sigmoid(sum(x * w, -1) + b);
    const Tensor entropy = -(y * log(p) + (1 - y) * log(1 - p));
    const Tensor centred = p - mean(p, 0, true);
    return mean(entropy) + 0.1 * sum(centred * centred) / 3 + sum(exp(-w) / (2 + tanh(b)));
  };
  const GradcheckResult result = gradcheck(loss, {{"w", w}, {"b", b}}, {.tolerance = kGradcheck});
  EXPECT_TRUE(result.passed) << result.text();
  EXPECT_EQ(result.checked, 3);
}

}  // namespace
}  // namespace heed::test
