#include "data/synthetic/dirichlet.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/tolerance.hpp"

namespace heed::data {
namespace {

constexpr double kSigmas = 5.0;

// The mean of `values` lies within kSigmas standard errors of `expected`.
void expect_mean(const std::vector<double>& values, double expected) {
  const double n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double sum_of_squares = 0.0;
  for (const double value : values) sum_of_squares += (value - mean) * (value - mean);
  const double standard_error = std::sqrt(sum_of_squares / (n - 1.0) / n);
  EXPECT_GT(standard_error, 0.0);
  EXPECT_LT(std::abs(mean - expected), kSigmas * standard_error) << "mean " << mean << " expected " << expected;
}

TEST(LogGammaVariate, HasTheMomentsOfTheGammaLaw) {
  struct Case {
    double shape, digamma;  // E[ln G] = digamma(shape), computed apart from this code by its asymptotic series
  };
  for (const Case& c :
       {Case{0.001, -1000.5755719318103}, Case{0.01, -100.56088545786868}, Case{0.5, -1.9635100260214235},
        Case{1.0, -0.5772156649015328}, Case{7.25, 1.910453526883735}, Case{1e4, 9.210290371142849}}) {
    SCOPED_TRACE(c.shape);
    std::vector<double> log, value, square;
    for (uint64_t i = 0; i < 50'000; ++i) {
      const double log_gamma = log_gamma_variate({3, random_site(RandomDomain::test, 0, 1), i}, c.shape);
      log.push_back(log_gamma);
      value.push_back(std::exp(log_gamma));
      square.push_back(std::exp(2.0 * log_gamma));
    }
    expect_mean(log, c.digamma);
    expect_mean(value, c.shape);
    expect_mean(square, c.shape * (c.shape + 1.0));
  }
}

TEST(LogGammaVariate, StaysFiniteForTinyShapes) {
  for (const double shape : {1e-6, 1e-20, 1e-300}) {
    const double value = log_gamma_variate({1, 2, 3}, shape);
    EXPECT_TRUE(std::isfinite(value)) << shape;
    EXPECT_LT(value, 0.0);
  }
  EXPECT_EQ(log_gamma_variate({1, 2, 3}, 0.0), -INFINITY);
}

TEST(LogGammaVariate, IsAPureFunctionOfItsStream) {
  const RandomStream stream{1, 2, 3};
  EXPECT_EQ(log_gamma_variate(stream, 2.5), log_gamma_variate(stream, 2.5));
  EXPECT_NE(log_gamma_variate(stream, 2.5), log_gamma_variate({1, 2, 4}, 2.5));
  EXPECT_NE(log_gamma_variate(stream, 2.5), log_gamma_variate({1, 3, 3}, 2.5));
  EXPECT_NE(log_gamma_variate(stream, 2.5), log_gamma_variate({2, 2, 3}, 2.5));
}

TEST(HierarchicalDirichlet, RowsAreNormalisedWhateverTheShapes) {
  for (const int64_t vocab_size : {1, 2, 7, 64}) {
    for (const double first : {kMinAlpha, 1e-3, 1.0, kMaxAlpha}) {
      for (const double last : {kMinAlpha, 1e-3, 1.0, kMaxAlpha}) {
        const std::vector<double> alpha = {first, last};
        const std::vector<double> rows = hierarchical_dirichlet_rows(vocab_size, alpha, 9);
        ASSERT_EQ(static_cast<int64_t>(rows.size()), vocab_size * vocab_size);
        for (int64_t row = 0; row < vocab_size; ++row) {
          double sum = 0.0;
          for (int64_t x = 0; x < vocab_size; ++x) {
            EXPECT_GE(rows[row * vocab_size + x], 0.0);
            sum += rows[row * vocab_size + x];
          }
          EXPECT_NEAR(sum, 1.0, test::kF64);
        }
      }
    }
  }
}

// Mean and variance of a row given the row of the shorter context: this is what alpha means.
struct RowMoments {
  void add(std::span<const double> row, std::span<const double> parent, double alpha) {
    double squares = 0.0, parent_squares = 0.0;
    for (size_t x = 0; x < row.size(); ++x) {
      squares += (row[x] - parent[x]) * (row[x] - parent[x]);
      parent_squares += parent[x] * parent[x];
    }
    difference.push_back(row[0] - parent[0]);
    excess_variance.push_back(squares - (1.0 - parent_squares) / (alpha + 1.0));
  }
  std::vector<double> difference, excess_variance;
};

TEST(HierarchicalDirichlet, AlphaIsTheTotalConcentrationOfItsLevel) {
  constexpr int64_t kVocab = 5;
  const std::vector<double> alpha = {10.0, 6.0, 3.0}, uniform(kVocab, 1.0 / kVocab);
  RowMoments moments[3];
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    const auto level0 = hierarchical_dirichlet_rows(kVocab, std::span(alpha).first(1), seed);
    const auto level1 = hierarchical_dirichlet_rows(kVocab, std::span(alpha).first(2), seed);
    const auto level2 = hierarchical_dirichlet_rows(kVocab, alpha, seed);
    const auto row = [](const std::vector<double>& rows, int64_t c) {
      return std::span(rows).subspan(c * kVocab, kVocab);
    };
    moments[0].add(level0, uniform, alpha[0]);
    for (int64_t c = 0; c < kVocab; ++c) moments[1].add(row(level1, c), level0, alpha[1]);
    for (int64_t c = 0; c < kVocab * kVocab; ++c) {  // the shorter context lacks the highest, oldest digit
      moments[2].add(row(level2, c), row(level1, c % kVocab), alpha[2]);
    }
  }
  for (const RowMoments& level : moments) {
    expect_mean(level.difference, 0.0);
    expect_mean(level.excess_variance, 0.0);
  }
}

}  // namespace
}  // namespace heed::data
