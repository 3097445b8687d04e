// Products by blocks beside sums in double, at sizes on both sides of all that they are cut by.
#include "autograd/cpu/gemm/block_gemm.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <vector>

#include "autograd/cpu/parallel.hpp"
#include "tests/support/gemm_problem.hpp"

namespace heed::test {
namespace {

template <class T>
GemmProblem<T> problem_of(int64_t m, int64_t n, int64_t k, int form) {
  return GemmProblem<T>(m, n, k, form & 1, form & 2, form & 4, form & 8);
}

struct Size {
  int64_t m, n, k;
};
// One element; edge tiles; more than kKC and kNC; an odd k with split-K, and a product too large for split-K.
const std::vector<Size> kSizes = {{1, 1, 1},      {8, 32, 16},   {9, 33, 17},     {7, 31, 130},
                                  {40, 96, 257},  {33, 65, 300}, {12, 40, 1100},  {5, 1030, 20},
                                  {70, 520, 515}, {600, 9, 40},  {1030, 130, 257}};

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
      auto problem = problem_of<TypeParam>(s.m, s.n, s.k, form);
      const auto run = [&] {
        return problem.run([](Context& context, const auto& product) { cpu::block_gemm(context, product); });
      };
      cpu::set_max_threads(1);
      const std::vector<TypeParam> one = run();
      expect_exact_up_to_rounding(problem, one);
      for (const int threads : {2, 3, 5}) {
        cpu::set_max_threads(threads);
        ASSERT_EQ(run(), one) << threads << " threads";
      }
    }
  }
  cpu::set_max_threads(before);
}

TYPED_TEST(BlockGemm, PartsCoverTheResultOnceWhenTheyAreComplete) {
  const int before = cpu::max_threads();
  cpu::set_max_threads(3);
  for (const Size& s : kSizes) {
    for (const int64_t k : {s.k, int64_t(0)}) {
      for (int form = 0; form < 16; ++form) {
        SCOPED_TRACE(testing::Message() << s.m << " x " << s.n << " x " << k << " form " << form);
        auto problem = problem_of<TypeParam>(s.m, s.n, k, form);
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
        const cpu::Epilogue done = look;
        const std::vector<TypeParam> result =
            problem.run([&](Context& context, const auto& product) { cpu::block_gemm(context, product, &done); });
        expect_exact_up_to_rounding(problem, result);
        EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
        EXPECT_EQ(seen, result);
      }
    }
  }
  cpu::set_max_threads(before);
}

}  // namespace
}  // namespace heed::test
