#include "autograd/check/gradcheck.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/plain_ops.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

// y = W x + b for one x; the gradient of W is multiplied by `fault` at one element.
Tensor affine(const Tensor& weight, const Tensor& x, const Tensor& bias, double fault = 1, int64_t faulty_element = 0) {
  const int64_t rows = weight.shape()[0], columns = weight.shape()[1];
  Output y({rows}, weight.dtype(), weight.device());
  const double *w = weight.data<double>(), *px = x.data<double>();
  for (int64_t i = 0; i < rows; ++i) {
    double sum = bias.data<double>()[i];
    for (int64_t j = 0; j < columns; ++j) sum += w[i * columns + j] * px[j];
    y.ref().as<double>()[i] = sum;
  }
  return record("affine", std::move(y), {weight, x, bias}, [=](const Tensor& dy, Gradients& gradients) {
    const TensorRef dweight = gradients.fresh(0), dx = gradients.fresh(1);
    gradients.alias(2, dy);
    if (dx) fill_zero(dx);
    for (int64_t i = 0; i < rows; ++i) {
      const double g = dy.data<double>()[i];
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t element = i * columns + j;
        if (dweight) dweight.as<double>()[element] = g * x.data<double>()[j] * (element == faulty_element ? fault : 1);
        if (dx) dx.as<double>()[j] += g * weight.data<double>()[element];
      }
    }
  });
}

struct Affine {
  Tensor weight, x, bias;
  Affine(int64_t outputs, int64_t inputs)
      : weight(from_values({outputs, inputs}, DType::f64, some_values(outputs * inputs, 1))),
        x(from_values({inputs}, DType::f64, some_values(inputs, 2))),
        bias(from_values({outputs}, DType::f64, some_values(outputs, 3))) {}
  std::vector<GradcheckTensor> tensors() const { return {{"weight", weight}, {"x", x}, {"bias", bias}}; }
};

TEST(Gradcheck, PassesARightOperationAtDefaultSettings) {
  const Affine a(1, 2);
  const std::vector<double> before = a.weight.values();
  const GradcheckResult result = gradcheck([&] { return affine(a.weight, a.x, a.bias); }, a.tensors());
  EXPECT_TRUE(result.passed) << result.text();
  EXPECT_EQ(result.checked, 2 + 2 + 1);
  EXPECT_LE(result.error, kGradcheck);
  EXPECT_EQ(a.weight.values(), before) << "elements are put back";
  EXPECT_FALSE(a.weight.grad()) << "no gradient is left behind";
}

TEST(Gradcheck, RefusesF32) {
  const Tensor x = full({2}, DType::f32, 1);
  try {
    gradcheck([&] { return scaled(x, 2); }, {{"activation", x}});
    ADD_FAILURE() << "f32 was accepted";
  } catch (const DTypeError& error) {
    EXPECT_NE(std::string(error.what()).find("activation is f32"), std::string::npos) << error.what();
  }
}

TEST(Gradcheck, FailsAndNamesAGradientThatIsOnePercentOff) {
  const Affine a(3, 4);
  for (const int64_t element : {0, 7, 11}) {
    const GradcheckResult result = gradcheck([&] { return affine(a.weight, a.x, a.bias, 1.01, element); }, a.tensors());
    EXPECT_FALSE(result.passed);
    EXPECT_EQ(result.tensor, "weight");
    EXPECT_EQ(result.element, element);
    EXPECT_NEAR(result.error, 0.01 / 1.01, kGradcheck);
    EXPECT_NEAR(result.analytic / result.numeric, 1.01, kGradcheck);
    EXPECT_EQ(result.text().find(fmt::format("weight[{}]: analytic", element)), 0u) << result.text();
  }
}

TEST(Gradcheck, SeesErrorsThatCancelInAPlainSum) {
  // The gradient goes to the other element: each sum over elements is right.
  const Tensor x = from_values({2}, DType::f64, {1, 2});
  const GradcheckResult result = gradcheck(
      [&] {
        Output y({2}, DType::f64, Device::cpu);
        combine(y.ref(), x, x, [](double v, double) { return v; });
        return record("swap", std::move(y), {x}, [](const Tensor& dy, Gradients& gradients) {
          double* dx = gradients.fresh(0).as<double>();
          dx[0] = dy.data<double>()[1];
          dx[1] = dy.data<double>()[0];
        });
      },
      {{"x", x}});
  EXPECT_FALSE(result.passed);
}

TEST(Gradcheck, PassesAFrozenMask) {
  const RandomStream stream{.seed = 3, .site = random_site(RandomDomain::test), .step = 0};
  const Tensor x = from_values({50}, DType::f64, some_values(50, 4));
  const GradcheckResult frozen = gradcheck([&] { return masked(x, stream); }, {{"x", x}});
  EXPECT_TRUE(frozen.passed) << frozen.text();
  // A mask that changes between the evaluations is noise and must not pass.
  RandomStream moving = stream;
  const GradcheckResult changing = gradcheck(
      [&] {
        ++moving.step.value;
        return masked(x, moving);
      },
      {{"x", x}});
  EXPECT_FALSE(changing.passed);
}

TEST(Gradcheck, AnUnusedTensorHasGradientZero) {
  const Tensor x = from_values({2}, DType::f64, {1, 2}), unused = from_values({3}, DType::f64, {1, 2, 3});
  const GradcheckResult result = gradcheck([&] { return scaled(x, 2); }, {{"unused", unused}, {"x", x}});
  EXPECT_TRUE(result.passed) << result.text();
  EXPECT_EQ(result.checked, 5);
  const GradcheckResult none = gradcheck([&] { return scaled(x.detach(), 0); }, {{"unused", unused}});
  EXPECT_TRUE(none.passed) << none.text();
  EXPECT_EQ(none.analytic, 0.0);
  EXPECT_EQ(none.numeric, 0.0);
}

TEST(Gradcheck, FailsWhereTheGraphIsCut) {
  const Tensor x = from_values({2}, DType::f64, {1, 2});
  const GradcheckResult result = gradcheck([&] { return plus(x, scaled(x.detach(), 2)); }, {{"x", x}});
  EXPECT_FALSE(result.passed);
  EXPECT_NEAR(result.numeric / result.analytic, 3.0, kGradcheck);
}

TEST(Gradcheck, FailsOnNanAndInf) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, inf, -inf}) {
    const Affine a(2, 2);
    const GradcheckResult gradient = gradcheck([&] { return affine(a.weight, a.x, a.bias, bad, 3); }, a.tensors());
    EXPECT_FALSE(gradient.passed) << bad;
    EXPECT_EQ(gradient.tensor, "weight");
    EXPECT_EQ(gradient.element, 3);
    a.x.data<double>()[0] = bad;
    EXPECT_FALSE(gradcheck([&] { return affine(a.weight, a.x, a.bias); }, a.tensors()).passed)
        << bad << " in the value";
  }
}

TEST(Gradcheck, SamplesLargeTensors) {
  const Tensor x = from_values({1000}, DType::f64, some_values(1000, 5));
  const GradcheckResult some = gradcheck([&] { return times(x, x); }, {{"x", x}}, {.max_elements = 32});
  EXPECT_TRUE(some.passed) << some.text();
  EXPECT_EQ(some.checked, 32);
}

TEST(Gradcheck, ASmallGradientNextToALargeIsStillChecked) {
  // The share of the largest gradient below which errors do not count is 1e-4; this one lies above it.
  const Tensor x = from_values({2}, DType::f64, {1000, 1});
  const auto square = [&](double fault) {
    Output y({2}, DType::f64, Device::cpu);
    combine(y.ref(), x, x, [](double v, double) { return v * v; });
    return record("square", std::move(y), {x}, [&x = x, fault](const Tensor& dy, Gradients& gradients) {
      combine(gradients.fresh(0), x, dy, [fault](double v, double g) { return 2 * v * g * (v == 1 ? fault : 1); });
    });
  };
  EXPECT_TRUE(gradcheck([&] { return square(1); }, {{"x", x}}).passed);
  const GradcheckResult wrong = gradcheck([&] { return square(1.01); }, {{"x", x}});
  EXPECT_FALSE(wrong.passed);
  EXPECT_EQ(wrong.element, 1);
}

}  // namespace
}  // namespace heed::test
