#include "train/ablate/statistics.hpp"

#include <algorithm>
#include <boost/math/distributions/non_central_t.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

namespace math = boost::math;

// The value that |t| exceeds with probability `level` if there is no difference.
double critical_t(int64_t pairs, double level) {
  const math::students_t distribution(static_cast<double>(pairs - 1));
  return math::quantile(math::complement(distribution, level / 2));
}

// The probability that |t| exceeds `critical`; shift: mean(d) / (sd / sqrt(n)) of the true difference.
double power(double shift, int64_t pairs, double critical) {
  const math::non_central_t distribution(static_cast<double>(pairs - 1), shift);
  return math::cdf(math::complement(distribution, critical)) + math::cdf(distribution, -critical);
}

// Beyond it the noncentral t distribution is not computed: no experiment is made of so few pairs.
constexpr double kLargestCritical = 1000;

// The shift that the test finds with probability kPower.
double detectable_shift(int64_t pairs, double level) {
  const double critical = critical_t(pairs, level);
  double low = 0, high = critical + 1;
  if (critical > kLargestCritical) return std::numeric_limits<double>::infinity();
  while (power(high, pairs, critical) < kPower) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (power(middle, pairs, critical) < kPower ? low : high) = middle;
  }
  return high;
}

}  // namespace

Sample describe(std::span<const double> values) {
  Sample sample{.count = static_cast<int64_t>(values.size()), .mean = 0, .sd = {}};
  if (values.empty()) return sample;
  const auto n = static_cast<double>(values.size());
  for (const double value : values) sample.mean += value / n;
  if (values.size() < 2) return sample;
  double squares = 0;
  for (const double value : values) squares += (value - sample.mean) * (value - sample.mean);
  sample.sd = std::sqrt(squares / (n - 1));
  return sample;
}

std::optional<PairedTest> paired_t_test(std::span<const double> differences, double significance, int64_t comparisons) {
  PairedTest test;
  test.difference = describe(differences);
  const int64_t pairs = test.difference.count;
  if (pairs < 2) return std::nullopt;
  const auto m = static_cast<double>(comparisons);
  const double error = *test.difference.sd / std::sqrt(static_cast<double>(pairs));
  test.half_width = critical_t(pairs, significance / m) * error;
  if (error > 0) {
    const math::students_t distribution(static_cast<double>(pairs - 1));
    const double one_side = math::cdf(math::complement(distribution, std::abs(test.difference.mean) / error));
    test.p = std::min(1.0, 2 * one_side * m);
  } else {
    test.p = test.difference.mean == 0 ? 1 : 0;
  }
  test.is_significant = test.p < significance;
  return test;
}

double detectable_difference(double sd, int64_t pairs, double significance, int64_t comparisons) {
  require<ValueError>(pairs >= 2 && comparisons >= 1, "detectable_difference: {} pairs, {} comparisons", pairs,
                      comparisons);
  return detectable_shift(pairs, significance / static_cast<double>(comparisons)) * sd /
         std::sqrt(static_cast<double>(pairs));
}

}  // namespace heed::train
