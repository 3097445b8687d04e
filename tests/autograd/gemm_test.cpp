#include "autograd/cpu/gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/core/philox.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::test {
namespace {

// One product with its operands; a, b, bias and the old c are random.
template <class T>
struct Product {
  cpu::Gemm<T> g;
  std::vector<T> a, b, bias, c;

  Product(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, bool add, bool with_bias)
      : a(draw(m * k, 1)), b(draw(k * n, 2)), bias(draw(n, 3)), c(draw(m * n, 4)) {
    // What is to be overwritten must not be read.
    if (!add) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());
    g = {.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b, .add = add};
    g.bias = with_bias ? bias.data() : nullptr;
  }

  std::vector<T> run() {
    std::vector<T> result = c;
    g.a = a.data();
    g.b = b.data();
    g.c = result.data();
    cpu::gemm(context(Device::cpu), g);
    return result;
  }

  T left(int64_t i, int64_t p) const { return g.transpose_a ? a[at(p, i, g.m)] : a[at(i, p, g.k)]; }
  T right(int64_t p, int64_t j) const { return g.transpose_b ? b[at(j, p, g.k)] : b[at(p, j, g.n)]; }
  static size_t at(int64_t row, int64_t column, int64_t columns) { return static_cast<size_t>(row * columns + column); }

  // The element in double and the sum of its terms' sizes, which bounds the rounding of any order of summation.
  struct Exact {
    double value = 0, size = 0;
    void add(double term) {
      value += term;
      size += std::abs(term);
    }
  };
  Exact exact(int64_t i, int64_t j) const {
    Exact e;
    if (g.add) e.add(c[at(i, j, g.n)]);
    if (g.bias != nullptr) e.add(bias[static_cast<size_t>(j)]);
    for (int64_t p = 0; p < g.k; ++p) e.add(static_cast<double>(left(i, p)) * static_cast<double>(right(p, j)));
    return e;
  }

  static std::vector<T> draw(int64_t count, uint32_t what) {
    const RandomStream stream{.seed = 2, .site = random_site(RandomDomain::test, what), .update = 0};
    std::vector<T> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(stream.normal(static_cast<uint64_t>(i))));
    return values;
  }
};

template <class T>
void expect_exact_up_to_rounding(Product<T>& product) {
  const std::vector<T> got = product.run();
  const cpu::Gemm<T>& g = product.g;
  SCOPED_TRACE(testing::Message() << g.m << " x " << g.n << " x " << g.k << (g.transpose_a ? " At" : " A")
                                  << (g.transpose_b ? " Bt" : " B") << (g.add ? " add" : "")
                                  << (g.bias != nullptr ? " bias" : ""));
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      const auto exact = product.exact(i, j);
      const double bound = static_cast<double>(g.k + 3) * std::numeric_limits<T>::epsilon() * exact.size;
      ASSERT_NEAR(got[Product<T>::at(i, j, g.n)], exact.value, bound) << i << ", " << j;
    }
  }
}

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
      Product<TypeParam> product(s.m, s.n, s.k, form & 1, form & 2, form & 4, form & 8);
      expect_exact_up_to_rounding(product);
    }
  }
}

TYPED_TEST(GemmOf, EmptySizes) {
  for (int form = 0; form < 16; ++form) {
    for (const int64_t zero : {0, 1, 2, 3}) {
      Product<TypeParam> product(zero == 0 ? 0 : 3, zero == 1 ? 0 : 4, zero == 2 ? 0 : 5, form & 1, form & 2, form & 4,
                                 form & 8);
      expect_exact_up_to_rounding(product);
    }
  }
}

TYPED_TEST(GemmOf, NanAndInfShow) {
  using T = TypeParam;
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN(), kInf = std::numeric_limits<T>::infinity();
  for (int form = 0; form < 16; ++form) {
    SCOPED_TRACE(form);
    Product<T> product(9, 10, 11, form & 1, form & 2, form & 4, form & 8);
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

// For any number of threads in f64 only, by plain loops: on some instruction sets oneDNN cuts an f32 product for three
// threads in another way than for one.
TYPED_TEST(GemmOf, SameBitsAgainAndInF64ForAnyThreads) {
  const int before = cpu::max_threads();
  for (int form = 0; form < 16; ++form) {
    Product<TypeParam> product(193, 130, 257, form & 1, form & 2, form & 4, form & 8);
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
