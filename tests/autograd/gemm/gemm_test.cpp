#include "autograd/cpu/gemm/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/cpu/parallel.hpp"
#include "tests/support/gemm_problem.hpp"

namespace heed::test {
namespace {

template <class T>
class GemmOf : public testing::Test {};
using Types = testing::Types<float, double>;
struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return sizeof(T) == 4 ? "f32" : "f64";
  }
};
TYPED_TEST_SUITE(GemmOf, Types, TypeNames);

TYPED_TEST(GemmOf, EveryFormAtOddSizes) {
  struct Size {
    int64_t m, n, k;
  };
  for (const Size& s : {Size{1, 1, 1}, Size{1, 7, 3}, Size{5, 1, 9}, Size{3, 4, 1}, Size{2, 3, 5}, Size{17, 16, 15},
                        Size{31, 33, 32}, Size{1, 65, 64}, Size{65, 1, 127}, Size{48, 64, 128}, Size{129, 67, 63}}) {
    for (int form = 0; form < 16; ++form) {
      GemmProblem<TypeParam> product(s.m, s.n, s.k, form & 1, form & 2, form & 4, form & 8);
      expect_exact_up_to_rounding(product, product.run());
    }
  }
}

TYPED_TEST(GemmOf, EmptySizes) {
  for (int form = 0; form < 16; ++form) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      GemmProblem<TypeParam> product(zero == 0 ? 0 : 3, zero == 1 ? 0 : 4, zero == 2 ? 0 : 5, form & 1, form & 2,
                                     form & 4, form & 8);
      expect_exact_up_to_rounding(product, product.run());
    }
  }
}

TYPED_TEST(GemmOf, NanAndInfShow) {
  using T = TypeParam;
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN(), kInf = std::numeric_limits<T>::infinity();
  for (int form = 0; form < 16; ++form) {
    SCOPED_TRACE(form);
    GemmProblem<T> product(9, 10, 11, form & 1, form & 2, form & 4, form & 8);
    const int64_t i = 4, j = 7, p = 6;
    const auto poison_left = [&](T v) { (product.g.transpose_a ? product.a[p * 9 + i] : product.a[i * 11 + p]) = v; };
    const auto poison_right = [&](T v) { (product.g.transpose_b ? product.b[j * 11 + p] : product.b[p * 10 + j]) = v; };
    const auto bad = [&](int64_t row, int64_t column) { return !std::isfinite(product.run()[row * 10 + column]); };
    poison_left(kNan);
    poison_right(0);  // 0 * NaN is NaN: no factor may be skipped
    for (int64_t column = 0; column < 10; ++column) EXPECT_TRUE(bad(i, column));
    EXPECT_FALSE(bad(i + 1, j));
    poison_left(0);
    poison_right(kInf);
    EXPECT_TRUE(std::isnan(product.run()[i * 10 + j])) << "0 * Inf";
    for (int64_t row = 0; row < 9; ++row) EXPECT_TRUE(bad(row, j));
    EXPECT_FALSE(bad(i, j + 1));
    poison_left(1);
    poison_right(kNan);
    for (int64_t row = 0; row < 9; ++row) EXPECT_TRUE(bad(row, j));
    poison_right(1);
    product.bias[3] = kNan;
    EXPECT_EQ(bad(0, 3), product.g.bias != nullptr);
    product.bias[3] = 0;
    product.c[5] = kInf;
    EXPECT_EQ(bad(0, 5), product.g.add);
  }
}

// For any number of threads in f64 only, by blocks: on some instruction sets oneDNN cuts an f32 product for three
// threads in another way than for one.
TYPED_TEST(GemmOf, SameBitsAgainAndInF64ForAnyThreads) {
  const int before = cpu::max_threads();
  for (int form = 0; form < 16; ++form) {
    GemmProblem<TypeParam> product(193, 130, 257, form & 1, form & 2, form & 4, form & 8);
    cpu::set_max_threads(1);
    std::vector<TypeParam> expected = product.run();
    for (const int threads : {1, 2, 3}) {
      cpu::set_max_threads(threads);
      if (sizeof(TypeParam) == sizeof(float)) expected = product.run();
      EXPECT_EQ(product.run(), expected) << "form " << form << ", " << threads << " threads";
    }
  }
  cpu::set_max_threads(before);
}

}  // namespace
}  // namespace heed::test
