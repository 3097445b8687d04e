#include "autograd/ops/softmax.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "autograd/check/op_case.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Softmax, NoProbabilityAtMinusInf) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = from_values({3}, dtype, {2, -kInf, 2});
    EXPECT_EQ(softmax(x).values(), Values({0.5, 0, 0.5}));
    EXPECT_EQ(log_softmax(x).values()[1], -kInf);
  }
}

TEST(Softmax, NanWithoutAnyProbability) {
  const Tensor x = from_values({2, 2}, DType::f32, {-kInf, -kInf, 0, 0});
  for (const Tensor& y : {softmax(x), log_softmax(x)}) {
    const Values values = y.values();
    EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]));
    EXPECT_TRUE(std::isfinite(values[2]) && std::isfinite(values[3])) << "another row";
  }
}

TEST(Softmax, LargeValues) {
  const Tensor x = from_values({3}, DType::f32, {3e38, 3e38, -3e38});
  EXPECT_EQ(softmax(x).values(), Values({0.5, 0.5, 0}));
  const Values logs = log_softmax(from_values({2}, DType::f32, {10001, 10000})).values();
  EXPECT_NEAR(logs[0], -std::log1p(std::exp(-1.0)), kF32);
}

// The gradient takes the memory of y if no other handle holds it.
TEST(Softmax, SameGradientInTheMemoryOfTheResult) {
  for (Tensor (*const run)(const Tensor&) : {softmax, log_softmax}) {
    const auto outcome = [run](bool hold) {
      const Tensor leaf = draw(normal("x", {33, 65}), DType::f32, 2).set_requires_grad(true);
      leaf.set_grad(zeros(leaf.shape(), leaf.dtype()));
      Tensor y = run(scale(leaf, 2));
      const Tensor held = hold ? y : Tensor(), result = scale(y, 3);
      y = Tensor();
      const Tensor dy = draw(normal("dy", {33, 65}), DType::f32, 3);
      reset_memory_peaks(Device::cpu);
      const int64_t start = memory_report(Device::cpu).total.current_bytes;
      backward(result, dy);
      return std::pair(leaf.grad().values(), memory_report(Device::cpu).total.peak_bytes - start);
    };
    const auto apart = outcome(true), over = outcome(false);
    EXPECT_EQ(apart.first, over.first);
    EXPECT_LT(over.second, apart.second);
  }
}

}  // namespace
}  // namespace heed::test
