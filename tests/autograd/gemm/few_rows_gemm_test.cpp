// GEMM with few rows of A, in place over B: against the exact result, and the same bits for any number of threads.
#include "autograd/cpu/gemm/few_rows_gemm.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "autograd/cpu/parallel.hpp"
#include "tests/support/gemm_problem.hpp"

namespace heed::test {
namespace {

template <class T>
class FewRowsGemm : public testing::Test {};
using Types = testing::Types<float, double>;
struct TypeNames {
  template <class T>
  static std::string GetName(int) {
    return sizeof(T) == 4 ? "f32" : "f64";
  }
};
TYPED_TEST_SUITE(FewRowsGemm, Types, TypeNames);

TYPED_TEST(FewRowsGemm, EveryNumberOfRows) {
  const auto run = [](Context&, const cpu::Gemm<TypeParam>& g) { cpu::few_rows_gemm(g); };
  for (int64_t m = 1; m <= 9; ++m) {
    for (const int64_t n : {1, 3, 4, 67}) {
      for (const int64_t k : {1, 15, 16, 70}) {
        for (int form = 0; form < 4; ++form) {
          GemmProblem<TypeParam> problem(m, n, k, false, true, form & 1, form & 2);
          expect_exact_up_to_rounding(problem, problem.run(run));
        }
      }
    }
  }
}

TYPED_TEST(FewRowsGemm, IsChosenForALargeMatrixOnly) {
  GemmProblem<TypeParam> problem(3, 300, 300, false, true, false, true);
  EXPECT_TRUE(cpu::suits_few_rows_gemm(problem.g));
  expect_exact_up_to_rounding(problem, problem.run());
  EXPECT_FALSE(cpu::suits_few_rows_gemm(GemmProblem<TypeParam>(64, 300, 300, false, true, false, true).g));
  EXPECT_FALSE(cpu::suits_few_rows_gemm(GemmProblem<TypeParam>(3, 300, 300, false, false, false, true).g));
  EXPECT_FALSE(cpu::suits_few_rows_gemm(GemmProblem<TypeParam>(3, 30, 30, false, true, false, true).g));
}

TYPED_TEST(FewRowsGemm, SameBitsForAnyThreads) {
  GemmProblem<TypeParam> problem(5, 401, 333, false, true, false, true);
  const int threads = cpu::max_threads();
  cpu::set_max_threads(1);
  const std::vector<TypeParam> expected = problem.run();
  for (const int count : {2, 3}) {
    cpu::set_max_threads(count);
    EXPECT_EQ(problem.run(), expected) << count;
  }
  cpu::set_max_threads(threads);
}

TYPED_TEST(FewRowsGemm, CallsTheEpilogueForAllOfC) {
  GemmProblem<TypeParam> problem(2, 300, 300, false, true, false, false);
  std::vector<int> calls(2 * 300);
  const auto count = [&](const cpu::Part& part) {
    for (int64_t i = part.row; i < part.end_row; ++i) {
      for (int64_t j = part.column; j < part.end_column; ++j) ++calls[i * 300 + j];
    }
  };
  problem.run([&](Context& context, const cpu::Gemm<TypeParam>& g) { cpu::gemm(context, g, count); });
  EXPECT_EQ(calls, std::vector<int>(2 * 300, 1));
}

}  // namespace
}  // namespace heed::test
