// bf16 products, on the processor's instructions where it has them and widened to f32, against sums in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "autograd/core/philox.hpp"
#include "autograd/cpu/gemm/gemm.hpp"
#include "autograd/cpu/parallel.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

template <class T>
std::vector<T> draw(int64_t count, uint32_t what) {
  const RandomStream stream{.seed = 5, .site = random_site(RandomDomain::test, what), .step = 0};
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(stream.normal(static_cast<uint64_t>(i))));
  return values;
}

template <class Out>
struct Product {
  std::vector<Bf16> a, b;
  std::vector<float> bias;
  std::vector<Out> c;
  cpu::Gemm<Bf16, Out> g;

  Product(int64_t m, int64_t n, int64_t k, int form)
      : a(draw<Bf16>(m * k, 1)), b(draw<Bf16>(k * n, 2)), bias(draw<float>(n, 3)), c(draw<Out>(m * n, 4)) {
    g = {.m = m, .n = n, .k = k, .transpose_a = (form & 1) != 0, .transpose_b = (form & 2) != 0};
    g.add = (form & 4) != 0;
    g.bias = (form & 8) != 0 ? bias.data() : nullptr;
    g.a = a.data();
    g.b = b.data();
    // What is to be overwritten must not be read.
    if (!g.add) c.assign(c.size(), static_cast<Out>(std::numeric_limits<float>::quiet_NaN()));
  }
  std::vector<Out> run(bool widened) {
    std::vector<Out> result = c;
    g.c = result.data();
    widened ? cpu::gemm_widened(context(Device::cpu), g) : cpu::gemm(context(Device::cpu), g);
    return result;
  }
  void check(bool widened) {
    const std::vector<Out> got = run(widened);
    constexpr double kRounding = std::is_same_v<Out, Bf16> ? kBf16Epsilon / 2 : 0;
    for (int64_t i = 0; i < g.m * g.n; ++i) {
      const int64_t row = i / g.n, column = i % g.n;
      const auto at = static_cast<size_t>(i);
      double value = g.bias != nullptr ? bias[static_cast<size_t>(column)] : 0, size = std::abs(value);
      if (g.add) value += c[at], size += std::abs(c[at]);
      for (int64_t p = 0; p < g.k; ++p) {
        const double term = static_cast<double>(a[static_cast<size_t>(g.transpose_a ? p * g.m + row : row * g.k + p)]) *
                            b[static_cast<size_t>(g.transpose_b ? column * g.k + p : p * g.n + column)];
        value += term;
        size += std::abs(term);
      }
      const double bound = static_cast<double>(g.k + 3) * kF32Epsilon * size + kRounding * std::abs(value);
      ASSERT_NEAR(static_cast<float>(got[at]), value, bound) << "form, element " << i << (widened ? ", widened" : "");
    }
  }
};

template <class Out>
class Bf16Gemm : public testing::Test {};
using Outs = testing::Types<float, Bf16>;
struct OutNames {
  template <class Out>
  static std::string GetName(int) {
    return std::is_same_v<Out, float> ? "to_f32" : "to_bf16";
  }
};
TYPED_TEST_SUITE(Bf16Gemm, Outs, OutNames);

TYPED_TEST(Bf16Gemm, EveryFormAtOddSizes) {
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {1, 7, 3},
                                                                   {5, 1, 9},
                                                                   {3, 4, 1},
                                                                   {17, 16, 15},
                                                                   {31, 33, 32},
                                                                   {65, 1, 127},
                                                                   {129, 67, 63},
                                                                   {3, 260, 257},
                                                                   // pair_gemm(): several blocks in each direction
                                                                   {64, 33, 34},
                                                                   {131, 70, 1026},
                                                                   {270, 545, 66},
                                                                   {530, 290, 64},
                                                                   {67, 1, 64}}) {
    for (int form = 0; form < 16; ++form) {
      SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k << ", form " << form);
      Product<TypeParam> product(m, n, k, form);
      product.check(false);
      product.check(true);
    }
  }
}

TYPED_TEST(Bf16Gemm, EmptySizes) {
  for (int form = 0; form < 16; ++form) {
    for (const int64_t zero : {0, 1, 2}) {
      Product<TypeParam> product(zero == 0 ? 0 : 3, zero == 1 ? 0 : 4, zero == 2 ? 0 : 5, form);
      product.check(false);
    }
  }
}

TYPED_TEST(Bf16Gemm, NanShows) {
  for (const bool widened : {false, true}) {
    for (int form = 0; form < 4; ++form) {
      Product<TypeParam> product(9, 10, 11, form);
      product.a[5] = Bf16(std::numeric_limits<float>::quiet_NaN());
      const auto result = product.run(widened);
      const auto bad = std::count_if(result.begin(), result.end(), [](float v) { return std::isnan(v); });
      EXPECT_EQ(bad, 10) << "one row";
    }
  }
}

// oneDNN's primitives are kept by shape and form: one that was made for another product must not be taken.
TEST(Bf16GemmCache, ProductsThatDifferInOneSizeOrInTheResultOnly) {
  const std::vector<std::array<int64_t, 3>> sizes = {{24, 40, 56}, {25, 40, 56}, {24, 41, 56}, {24, 40, 57}};
  for (const auto& [m, n, k] : sizes) {
    for (int form = 0; form < 16; ++form) {
      Product<float>(m, n, k, form).check(false);
      Product<Bf16>(m, n, k, form).check(false);
    }
  }
}

}  // namespace
}  // namespace heed::test
