// Products by blocks beside sums in double, at sizes on both sides of all that they are cut by.
#include "autograd/cpu/block_gemm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <mutex>
#include <vector>

#include "autograd/core/philox.hpp"
#include "autograd/cpu/parallel.hpp"

namespace heed::test {
namespace {

template <class T>
std::vector<T> draw(int64_t count, uint32_t what) {
  const RandomStream stream{.seed = 3, .site = random_site(RandomDomain::test, what), .update = 0};
  std::vector<T> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<T>(stream.normal(static_cast<uint64_t>(i))));
  return values;
}

template <class T>
struct Problem {
  cpu::Gemm<T> g;
  std::vector<T> a, b, bias, c;

  Problem(int64_t m, int64_t n, int64_t k, int form)
      : a(draw<T>(m * k, 1)), b(draw<T>(k * n, 2)), bias(draw<T>(n, 3)), c(draw<T>(m * n, 4)) {
    g = {
        .m = m, .n = n, .k = k, .transpose_a = (form & 1) != 0, .transpose_b = (form & 2) != 0, .add = (form & 4) != 0};
    if ((form & 8) != 0) g.bias = bias.data();
    // What is to be overwritten must not be read.
    if (!g.add) c.assign(c.size(), std::numeric_limits<T>::quiet_NaN());
    g.a = a.data();
    g.b = b.data();
  }

  std::vector<T> run(const cpu::PartDone* done = nullptr) {
    std::vector<T> result = c;
    g.c = result.data();
    cpu::block_gemm(context(Device::cpu), g, done);
    return result;
  }

  // The sum in double, and what rounding may make of it in any order.
  std::pair<double, double> element(int64_t i, int64_t j) const {
    double value = 0, size = 0;
    const auto add = [&](double term) {
      value += term;
      size += std::abs(term);
    };
    if (g.add) add(c[static_cast<size_t>(i * g.n + j)]);
    if (g.bias != nullptr) add(bias[static_cast<size_t>(j)]);
    for (int64_t p = 0; p < g.k; ++p) {
      add(static_cast<double>(a[static_cast<size_t>(g.transpose_a ? p * g.m + i : i * g.k + p)]) *
          static_cast<double>(b[static_cast<size_t>(g.transpose_b ? j * g.k + p : p * g.n + j)]));
    }
    return {value, static_cast<double>(g.k + 3) * std::numeric_limits<T>::epsilon() * size};
  }
};

struct Size {
  int64_t m, n, k;
};
// One element; strips and panels that are not whole; more than kSteps, kColumns and, in halves, an odd number of steps.
const std::vector<Size> kSizes = {{1, 1, 1},     {8, 32, 16},    {9, 33, 17},   {7, 31, 130},   {40, 96, 257},
                                  {33, 65, 300}, {12, 40, 1100}, {5, 1030, 20}, {70, 520, 515}, {600, 9, 40}};

template <class T>
class BlockGemm : public testing::Test {};
using Types = testing::Types<float, double>;
struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return sizeof(T) == 4 ? "f32" : "f64";
  }
};
TYPED_TEST_SUITE(BlockGemm, Types, TypeNames);

TYPED_TEST(BlockGemm, EveryFormWithTheSameBitsForAnyThreads) {
  const int before = cpu::max_threads();
  for (const Size& s : kSizes) {
    for (int form = 0; form < 16; ++form) {
      SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << s.k << " form " << form);
      Problem<TypeParam> problem(s.m, s.n, s.k, form);
      cpu::set_max_threads(1);
      const std::vector<TypeParam> one = problem.run();
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          const auto [value, bound] = problem.element(i, j);
          ASSERT_NEAR(one[static_cast<size_t>(i * s.n + j)], value, bound) << i << ", " << j;
        }
      }
      for (const int threads : {2, 3, 5}) {
        cpu::set_max_threads(threads);
        ASSERT_EQ(problem.run(), one) << threads << " threads";
      }
    }
  }
  cpu::set_max_threads(before);
}

TYPED_TEST(BlockGemm, PartsCoverTheResultOnceWhenTheyAreComplete) {
  const int before = cpu::max_threads();
  cpu::set_max_threads(3);
  for (Size s : std::vector<Size>{kSizes.begin(), kSizes.end()}) {
    for (const int64_t k : {s.k, int64_t(0)}) {
      for (int form = 0; form < 16; ++form) {
        SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << k << " form " << form);
        Problem<TypeParam> problem(s.m, s.n, k, form);
        std::mutex mutex;
        std::vector<int> visits(static_cast<size_t>(s.m * s.n));
        std::vector<TypeParam> seen(visits.size());
        const auto look = [&](const cpu::Part& part) {
          const std::lock_guard lock(mutex);
          for (int64_t i = part.row; i < part.end_row; ++i) {
            for (int64_t j = part.column; j < part.end_column; ++j) {
              const auto at = static_cast<size_t>(i * s.n + j);
              ++visits[at];
              seen[at] = problem.g.c[at];
            }
          }
        };
        const cpu::PartDone done = look;
        const std::vector<TypeParam> result = problem.run(&done);
        EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
        EXPECT_EQ(seen, result);
      }
    }
  }
  cpu::set_max_threads(before);
}

}  // namespace
}  // namespace heed::test
