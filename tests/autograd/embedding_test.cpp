#include "autograd/ops/embedding.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/cpu/parallel.hpp"
#include "autograd/tape.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

TEST(Embedding, OneTokenAThousandTimesHasAnExactGradient) {
  const int threads_before = cpu::max_threads();
  for (const int threads : {1, 2, 3}) {
    cpu::set_max_threads(threads);
    const Tensor table = zeros({7, 33}, DType::f32).set_requires_grad(true);
    const Tensor y = embedding(table, from_tokens({10, 100}, std::vector<int32_t>(1000, 4)));
    backward(y, full(y.shape(), DType::f32, 1.0));
    const Values gradient = table.grad().values();
    for (size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(gradient[i], i / 33 == 4 ? 1000 : 0) << i;
  }
  cpu::set_max_threads(threads_before);
}

TEST(Embedding, RowsWithoutATokenAreNotTouchedWhereTheGradientIsAdded) {
  const Tensor table = zeros({5, 3}, DType::f32).set_requires_grad(true);
  const Tensor gradient = full({5, 3}, DType::f32, std::numeric_limits<double>::quiet_NaN());
  for (int i = 0; i < 3; ++i) gradient.data<float>()[2 * 3 + i] = 10;
  table.set_grad(gradient);
  const Tensor y = embedding(table, from_tokens({2}, {2, 2}));
  backward(y, full(y.shape(), DType::f32, 1.0));
  const Values values = gradient.values();
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(i / 3 == 2 ? values[i] == 12 : std::isnan(values[i])) << i << " is " << values[i];
  }
}

TEST(Embedding, NoTokensLeaveAGradientOfZero) {
  const Tensor table = zeros({5, 3}, DType::f32).set_requires_grad(true);
  const Tensor y = embedding(table, from_tokens({0}, {}));
  EXPECT_EQ(y.shape(), Shape({0, 3}));
  backward(y, y.clone());
  EXPECT_EQ(table.grad().values(), Values(15, 0));
}

TEST(AddPositions, UsesTheFirstRowsOfATableThatIsLonger) {
  const Tensor x = zeros({2, 2, 1}, DType::f32).set_requires_grad(true);
  const Tensor positions = from_values({4, 1}, DType::f32, {1, 2, 3, 4}).set_requires_grad(true);
  const Tensor y = add_positions(x, positions);
  EXPECT_EQ(y.values(), Values({1, 2, 1, 2}));
  backward(y, from_values({2, 2, 1}, DType::f32, {1, 10, 100, 1000}));
  EXPECT_EQ(x.grad().values(), Values({1, 10, 100, 1000}));
  EXPECT_EQ(positions.grad().values(), Values({101, 1010, 0, 0}));
  backward(add_positions(x, positions), from_values({2, 2, 1}, DType::f32, {1, 10, 100, 1000}));
  EXPECT_EQ(positions.grad().values(), Values({202, 2020, 0, 0}));
}

TEST(AddPositions, ConstantPositionsHaveNoGradient) {
  const Tensor x = zeros({1, 2, 1}, DType::f32).set_requires_grad(true);
  const Tensor positions = from_values({2, 1}, DType::f32, {1, 2});
  backward(add_positions(x, positions), from_values({1, 2, 1}, DType::f32, {5, 6}));
  EXPECT_EQ(x.grad().values(), Values({5, 6}));
  EXPECT_FALSE(positions.grad());
}

}  // namespace
}  // namespace heed::test
