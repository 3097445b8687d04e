#include "autograd/ops/broadcast.hpp"

#include <gtest/gtest.h>

#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

Tensor leaf(const Shape& shape, const Values& values, DType dtype = DType::f32) {
  return from_values(shape, dtype, values).set_requires_grad(true);
}

TEST(BroadcastShape, IsThatOfNumpy) {
  EXPECT_EQ(broadcast_shape({}, {}), Shape{});
  EXPECT_EQ(broadcast_shape({}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shape({3, 1}, {2, 1, 4}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shape({1, 5, 1, 7}, {9, 1, 8, 1}), (Shape{9, 5, 8, 7}));
  EXPECT_EQ(broadcast_shape({1}, {0}), Shape{0}) << "1 is repeated 0 times";
  EXPECT_EQ(broadcast_shape({2, 0}, {1, 1}), (Shape{2, 0}));
  EXPECT_THROW(broadcast_shape({2}, {0}), ShapeError);
  EXPECT_THROW(broadcast_shape({2, 3}, {2}), ShapeError) << "aligned at the last dimension";
}

TEST(BroadcastShape, TheErrorNamesBothShapesAndTheDimension) {
  try {
    broadcast_shape({4, 2, 5}, {3, 5}, "sub");
    FAIL() << "no error";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(error.what(),
                 "sub: a has shape (4, 2, 5) but b has shape (3, 5): in dimension -2 they have 2 and 3, which must be "
                 "equal or one of them 1");
  }
}

TEST(Expand, RepeatsAndSumsBack) {
  const Tensor x = leaf({2, 1, 2}, {1, 2, 3, 4});
  const Tensor y = expand(x, {2, 3, 2});
  EXPECT_EQ(y.values(), Values({1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4}));
  backward(y, from_values({2, 3, 2}, DType::f32, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(x.grad().values(), Values({9, 12, 27, 30}));
}

TEST(Expand, SeveralDimensionsApart) {
  const Tensor x = leaf({1, 2, 1}, {1, 2});
  const Tensor y = expand(x, {2, 2, 3});
  EXPECT_EQ(y.values(), Values({1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  backward(y, from_values({2, 2, 3}, DType::f32, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(x.grad().values(), Values({1 + 2 + 3 + 7 + 8 + 9, 4 + 5 + 6 + 10 + 11 + 12}));
}

// 256 + 1 is 256 in bf16: sums of sums that were rounded would lose all that follows.
TEST(Expand, GradientOfBf16IsRoundedOnce) {
  const Tensor x = leaf({1, 2, 1}, {0, 0}, DType::bf16);
  Values dy(2 * 2 * 3, 1.0);
  dy[0] = 256;
  backward(expand(x, {2, 2, 3}), from_values({2, 2, 3}, DType::bf16, dy));
  EXPECT_EQ(x.grad().values(), Values({260, 6})) << "256 + 5, rounded to 8 bits";
}

// Runs of every length, whole or cut by a buffer or a thread: rows and repeated elements.
TEST(Expand, RunsOfAnyLength) {
  for (const int64_t length : {1, 2, 3, 7, 31, 32, 33, 100}) {
    constexpr int64_t kOuter = 3, kTimes = 501;
    Values rows;
    for (int64_t o = 0; o < kOuter; ++o) {
      for (int64_t i = 0; i < length; ++i) rows.push_back(static_cast<double>(100 * o + i));
    }
    const Tensor x = from_values({kOuter, 1, length}, DType::f32, rows);
    const Tensor y = expand(x, {kOuter, kTimes, length});
    const Tensor z = expand(from_values({kOuter * length, 1}, DType::f32, rows), {kOuter * length, kTimes});
    for (int64_t i = 0; i < y.numel(); ++i) {
      ASSERT_EQ(y.data<float>()[i], x.data<float>()[i / (kTimes * length) * length + i % length]) << length << " " << i;
      ASSERT_EQ(z.data<float>()[i], x.data<float>()[i / kTimes]) << length << " " << i;
    }
    const Tensor threes = expand(y.slice(0, {y.numel(), 1}), {y.numel(), 3});
    for (int64_t i = 0; i < threes.numel(); ++i) ASSERT_EQ(threes.data<float>()[i], y.data<float>()[i / 3]) << i;
  }
}

// As the bias of a million rows.
TEST(Expand, GradientOfAMillionRowsLosesNoDigits) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    constexpr int64_t kRows = 1'000'000;
    const Tensor bias = leaf({3}, {1, 2, 3}, dtype), dy = full({kRows, 3}, dtype, 0.1);
    backward(add(zeros({kRows, 3}, dtype), bias), dy);
    const double exact = dy.slice(0, {}).item() * kRows;
    for (const double db : bias.grad().values()) {
      EXPECT_NEAR(db / exact, 1, dtype == DType::f32 ? kF32LongSum : kBf16RoundedOnce);
    }
  }
}

TEST(Expand, NoElements) {
  const Tensor x = leaf({3, 1}, {1, 2, 3});
  const Tensor none = expand(x, {3, 0});
  EXPECT_EQ(none.shape(), (Shape{3, 0}));
  backward(none, zeros({3, 0}, DType::f32));
  EXPECT_EQ(x.grad().values(), Values({0, 0, 0})) << "a sum of no elements";
  EXPECT_EQ(expand(zeros({0, 1}, DType::f32), {0, 4}).shape(), (Shape{0, 4}));
  EXPECT_EQ(add(x, zeros({1, 0}, DType::f32)).shape(), (Shape{3, 0}));
}

TEST(Broadcasting, AVectorAndAMatrix) {
  const Tensor m = leaf({2, 3}, {1, 2, 3, 4, 5, 6}), v = leaf({3}, {10, 20, 40});
  const Tensor dy = from_values({2, 3}, DType::f32, {1, 2, 3, 4, 5, 6});
  const auto gradients = [&](Tensor (*operation)(const Tensor&, const Tensor&), const Tensor& a, const Tensor& b) {
    for (const Tensor& x : {m, v}) x.set_grad(Tensor());
    const Tensor y = operation(a, b);
    backward(y, dy);
    return y.values();
  };
  EXPECT_EQ(gradients(add, m, v), Values({11, 22, 43, 14, 25, 46}));
  EXPECT_EQ(m.grad().values(), dy.values());
  EXPECT_EQ(v.grad().values(), Values({5, 7, 9}));

  EXPECT_EQ(gradients(sub, v, m), Values({9, 18, 37, 6, 15, 34}));
  EXPECT_EQ(m.grad().values(), Values({-1, -2, -3, -4, -5, -6}));
  EXPECT_EQ(v.grad().values(), Values({5, 7, 9}));

  EXPECT_EQ(gradients(mul, m, v), Values({10, 40, 120, 40, 100, 240}));
  EXPECT_EQ(m.grad().values(), Values({10, 40, 120, 40, 100, 240}));
  EXPECT_EQ(v.grad().values(), Values({1 + 16, 4 + 25, 9 + 36}));

  EXPECT_EQ(gradients(div, leaf({1, 1}, {60}), m), Values({60, 30, 20, 15, 12, 10}));
  EXPECT_EQ(m.grad().values(), Values({-60, -30, -20, -15, -12, -10}));
}

}  // namespace
}  // namespace heed::test
