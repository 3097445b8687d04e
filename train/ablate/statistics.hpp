// Comparison of the arms of a sweep over paired runs: run k of every arm has the same seed.
//
//   test        paired t-test of the differences d_k = loss_k(arm) - loss_k(baseline), two-sided:
//               t = mean(d) / (sd(d) / sqrt(n)), n - 1 degrees of freedom, sd with n - 1
//   correction  Bonferroni: with m comparisons each is made at level significance / m, and p is multiplied by m. The
//               probability of any false positive is then at most `significance`.
//   interval    mean(d) ± t(1 - level / 2; n - 1) · sd(d) / sqrt(n): it excludes 0 exactly if the difference is
//               significant
//   detectable  the true difference that this test finds with probability kPower (noncentral t distribution)
//
// The test assumes differences that are independent and nearly normal.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace heed::train {

inline constexpr double kPower = 0.8;

struct Sample {
  int64_t count = 0;
  double mean = 0;
  std::optional<double> sd;  // with count - 1 in the denominator; from two values on
};

Sample describe(std::span<const double> values);

struct PairedTest {
  Sample difference;
  double half_width = 0;        // of the interval
  double p = 1;                 // corrected
  bool is_significant = false;  // p < significance
};

// nullopt for fewer than two pairs. significance: in (0, 1), of all `comparisons` together.
std::optional<PairedTest> paired_t_test(std::span<const double> differences, double significance, int64_t comparisons);

// sd: of the differences. pairs >= 2, comparisons >= 1.
double detectable_difference(double sd, int64_t pairs, double significance, int64_t comparisons);

}  // namespace heed::train
