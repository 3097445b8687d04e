// A matrix product with its operands, and its elements in double.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/core/philox.hpp"
#include "autograd/cpu/gemm/gemm.hpp"

namespace heed::test {

// One product with its operands; a, b, bias and the old c are random.
template <class T>
struct GemmProblem {
  cpu::Gemm<T> g;
  std::vector<T> a, b, bias, c;

  GemmProblem(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, bool add, bool with_bias)
      : a(draw(m * k, 1)), b(draw(k * n, 2)), bias(draw(n, 3)), c(draw(m * n, 4)) {
    // What is to be overwritten must not be read.
    if (!add) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());
    g = {.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b, .add = add};
    g.bias = with_bias ? bias.data() : nullptr;
  }

  // The result of compute(context, g).
  template <class Compute>
  std::vector<T> run(const Compute& compute) {
    std::vector<T> result = c;
    g.a = a.data();
    g.b = b.data();
    g.c = result.data();
    compute(context(Device::cpu), g);
    return result;
  }
  std::vector<T> run() {
    return run([](Context& context, const cpu::Gemm<T>& product) { cpu::gemm(context, product); });
  }

  T left(int64_t i, int64_t p) const { return g.transpose_a ? a[at(p, i, g.m)] : a[at(i, p, g.k)]; }
  T right(int64_t p, int64_t j) const { return g.transpose_b ? b[at(j, p, g.k)] : b[at(p, j, g.n)]; }
  static size_t at(int64_t row, int64_t column, int64_t columns) { return static_cast<size_t>(row * columns + column); }

  // The element in double and the sum of its terms' sizes, which bounds the rounding of any order of summation.
  struct Exact {
    double value = 0, size = 0;
    double bound(int64_t k) const { return static_cast<double>(k + 3) * std::numeric_limits<T>::epsilon() * size; }
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
    const RandomStream stream{.seed = 2, .site = random_site(RandomDomain::test, what), .step = 0};
    std::vector<T> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(stream.normal(static_cast<uint64_t>(i))));
    return values;
  }
};

template <class T>
void expect_exact_up_to_rounding(const GemmProblem<T>& problem, const std::vector<T>& got) {
  const cpu::Gemm<T>& g = problem.g;
  SCOPED_TRACE(testing::Message() << g.m << " x " << g.n << " x " << g.k << (g.transpose_a ? " At" : " A")
                                  << (g.transpose_b ? " Bt" : " B") << (g.add ? " add" : "")
                                  << (g.bias != nullptr ? " bias" : ""));
  for (int64_t i = 0; i < g.m; ++i) {
    for (int64_t j = 0; j < g.n; ++j) {
      const auto exact = problem.exact(i, j);
      ASSERT_NEAR(got[problem.at(i, j, g.n)], exact.value, exact.bound(g.k)) << i << ", " << j;
    }
  }
}

}  // namespace heed::test
