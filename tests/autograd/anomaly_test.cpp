#include "autograd/anomaly.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "autograd/tape.hpp"
#include "tests/support/plain_ops.hpp"

namespace heed::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

class Anomaly : public testing::Test {
 protected:
  void SetUp() override { set_detect_anomaly(true); }
  void TearDown() override { set_detect_anomaly(false); }

  // The text of the error that run() ends with.
  template <class F>
  static std::string error_of(F run) {
    try {
      run();
    } catch (const DivergedError& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no anomaly was found";
    return "";
  }
  static void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
  }
};

// 1 / x, whose gradient -1 / x^2 overflows before the value does.
Tensor inverse(const Tensor& x) {
  Output y(x.shape(), x.dtype(), x.device());
  combine(y.ref(), x, x, [](double v, double) { return 1 / v; });
  return record("inverse", std::move(y), {x}, [x](const Tensor& dy, Gradients& gradients) {
    combine(gradients.sink(0).ref, x, dy, [](double v, double g) { return -g / (v * v); });
  });
}

TEST_F(Anomaly, NamesTheFirstOperationForward) {
  const Tensor x = leaf({2, 2}, {1, -2, 0, 4});
  const std::string text = error_of([&] {
    const Tensor h = scaled(x, 3);
    const NameScope block("blocks.2");
    const NameScope attention("attention");
    scaled(plus(inverse(h), h), 2);
  });
  expect_parts(text, {"the result of operation 'inverse' in blocks.2.attention", "(2, 2) f64", "0 NaN, 1 Inf",
                      "input 0 (2, 2) f64: min -6 max 12 mean 2.25, 0 NaN, 0 Inf"});
  EXPECT_EQ(text.find("plus"), std::string::npos) << text;
  EXPECT_EQ(current_scope(), "") << "the error left the scopes";
}

TEST_F(Anomaly, NamesTheOperationThatFirstReadsABadInput) {
  const Tensor bad = from_values({2}, DType::f32, {1, kNan}), good = from_values({2}, DType::f32, {1, 2});
  const std::string text = error_of([&] { plus(times(good, good), scaled(bad, 2)); });
  expect_parts(text, {"'scaled'", "input 0 (2) f32: min 1 max 1 mean 1, 1 NaN, 0 Inf"});
}

TEST_F(Anomaly, NamesTheOperationBackward) {
  const Tensor x = leaf({2}, {1e-200, 1});
  Tensor loss;
  {
    const NameScope scope("head");
    loss = total(scaled(inverse(x), 2));
  }
  const std::string text = error_of([&] { backward(loss); });
  expect_parts(text, {"the gradient of operation 'inverse' in head", "1 Inf", "input 0 (2) f64: min 1e-200 max 1"});
}

// Whatever scope backward() is called in, it names a recomputed operation by the scopes of forward.
TEST_F(Anomaly, NamesTheRecomputedOperation) {
  const Tensor x = leaf({2}, {1, 2});
  int runs = 0;
  const Tensor loss = total(recompute(
      [&](const std::vector<Tensor>& in) {
        const NameScope scope("block");
        return scaled(in[0], ++runs == 1 ? 1 : kInf);
      },
      {x}));
  const std::string text = error_of([&] {
    const NameScope scope("head");
    backward(loss);
  });
  expect_parts(text, {"the result of operation 'scaled' in block is"});
}

TEST_F(Anomaly, LooksAtGradientsThatAreAddedTo) {
  const Tensor x = leaf({2}, {1e-200, 1});
  x.set_grad(zeros({2}, DType::f64));
  const std::string text = error_of([&] { backward(total(inverse(x))); });
  expect_parts(text, {"the gradient of operation 'inverse'"});
}

TEST_F(Anomaly, NamesTheOperationInsideRecompute) {
  const Tensor x = leaf({2}, {1e-200, 1});
  const auto block = [](const std::vector<Tensor>& in) {
    const NameScope scope("blocks.1");
    return scaled(inverse(in[0]), 2);
  };
  const Tensor loss = total(recompute(block, {x}));
  expect_parts(error_of([&] { backward(loss); }), {"the gradient of operation 'inverse' in blocks.1"});
}

TEST_F(Anomaly, SilentForFiniteValuesAndTokens) {
  const Tensor x = leaf({2}, {1, -1});
  EXPECT_NO_THROW(backward(total(inverse(x))));
  EXPECT_NO_THROW(require_finite("gather", "", "result", from_tokens({2}, {1, 2}), {}));
  const Tensor largest = full({2}, DType::f32, std::numeric_limits<float>::max());
  EXPECT_NO_THROW(require_finite("any", "", "result", largest, {}));
}

TEST_F(Anomaly, OffByDefaultAndThenSilent) {
  set_detect_anomaly(false);
  const Tensor x = leaf({2}, {0, kNan});
  EXPECT_NO_THROW(backward(total(inverse(x))));
  EXPECT_FALSE(detect_anomaly());
}

TEST(Statistics, SaysWhatATensorHolds) {
  EXPECT_EQ(statistics(from_values({2, 3}, DType::f32, {-1.5, 2, 0.25, kNan, kInf, -kInf})),
            "(2, 3) f32: min -1.5 max 2 mean 0.25, 1 NaN, 2 Inf");
  EXPECT_EQ(statistics(from_values({2}, DType::f64, {kNan, kInf})), "(2) f64: no finite value, 1 NaN, 1 Inf");
  EXPECT_EQ(statistics(zeros({0}, DType::f32)), "(0) f32: no finite value, 0 NaN, 0 Inf");
  EXPECT_EQ(statistics(from_tokens({3}, {7, 1, 4})), "(3) i32: min 1 max 7 mean 4, 0 NaN, 0 Inf");
}

TEST(NameScopes, JoinAndUnwind) {
  EXPECT_EQ(current_scope(), "");
  {
    const NameScope outer("blocks.2");
    {
      const NameScope inner("attention");
      EXPECT_EQ(current_scope(), "blocks.2.attention");
    }
    EXPECT_EQ(current_scope(), "blocks.2");
  }
  EXPECT_EQ(current_scope(), "");
}

// The compiler must not assume that numbers are finite: these are known at run time only.
TEST(NonFinite, IsSeenInEveryBuild) {
  for (const char* spelt : {"nan", "inf", "-inf"}) {
    volatile double read = std::strtod(spelt, nullptr);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor tensor = from_values({3}, dtype, {1, read, 2});
      EXPECT_THROW(require_finite("any", "", "result", tensor, {}), DivergedError) << spelt << " in " << name(dtype);
      EXPECT_FALSE(std::isfinite(tensor.values()[1])) << spelt;
    }
    EXPECT_FALSE(std::isfinite(read));
    EXPECT_EQ(std::isnan(read), spelt[0] == 'n');
    const volatile double difference = read - read;
    EXPECT_TRUE(std::isnan(difference)) << "Inf - Inf and NaN - NaN are NaN, not 0";
  }
  volatile float largest = std::numeric_limits<float>::max(), two = 2;
  EXPECT_TRUE(std::isinf(static_cast<float>(largest * two)));
}

}  // namespace
}  // namespace heed::test
