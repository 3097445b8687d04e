// The functions of simd.hpp where Highway's own are wrong: at NaN, Inf and 0. For the instruction set of the build.
#include "autograd/cpu/simd.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/tolerance.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

template <class T>
T log_of(T x) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(Log(d, hn::Set(d, x)));
}

template <class T>
void expect_log(double tolerance) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  EXPECT_TRUE(std::isnan(log_of(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(log_of(T(-1))));
  EXPECT_TRUE(std::isnan(log_of(-kInf)));
  EXPECT_EQ(log_of(T(0)), -kInf);
  EXPECT_EQ(log_of(kInf), kInf);
  EXPECT_EQ(log_of(T(1)), T(0));
  for (T x = std::numeric_limits<T>::min(); x < std::numeric_limits<T>::max() / 3; x *= T(2.7)) {
    const double expected = std::log(static_cast<double>(x));
    EXPECT_NEAR(log_of(x), expected, tolerance * std::max(1.0, std::abs(expected))) << x;
  }
}

template <class T>
void expect_tanh(double tolerance) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  const hn::CappedTag<T, 1> d;
  const auto tanh_of = [d](T x) HWY_ATTR { return hn::GetLane(Tanh(d, hn::Set(d, x))); };
  EXPECT_TRUE(std::isnan(tanh_of(std::numeric_limits<T>::quiet_NaN())));
  EXPECT_EQ(tanh_of(kInf), T(1));
  EXPECT_EQ(tanh_of(-kInf), T(-1));
  EXPECT_EQ(tanh_of(T(0)), T(0));
  for (T x = std::numeric_limits<T>::min(); x < std::numeric_limits<T>::max() / 3; x *= T(2.7)) {
    const double expected = std::tanh(static_cast<double>(x));
    EXPECT_NEAR(tanh_of(x), expected, tolerance * expected) << x;
    EXPECT_EQ(tanh_of(-x), -tanh_of(x));
  }
}

TEST(Simd, TanhIsRightAtNanInfAndEverySize) {
  expect_tanh<float>(test::kF32);
  expect_tanh<double>(test::kF64);
}

TEST(Simd, LogIsRightAtNanInfAndZero) {
  expect_log<float>(test::kF32);
  expect_log<double>(test::kF64);
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
