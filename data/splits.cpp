#include "data/splits.hpp"

#include <cmath>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

int64_t cut(int64_t total, double share) {
  // Tolerates rounding: in double, 10 · (1 - 0.3 - 0.2) is slightly below 5.
  constexpr double kRounding = 1e-6;
  return static_cast<int64_t>(std::floor(static_cast<double>(total) * share + kRounding));
}

}  // namespace

SplitSizes split_by_fractions(int64_t total, double val_fraction, double test_fraction) {
  require<ConfigError>(0 <= val_fraction && 0 <= test_fraction && val_fraction + test_fraction < 1,
                       "data.val_fraction = {} and data.test_fraction = {}, they must be at least 0 and together less "
                       "than 1",
                       val_fraction, test_fraction);
  const int64_t train = cut(total, 1 - val_fraction - test_fraction);
  const int64_t before_test = test_fraction > 0 ? cut(total, 1 - test_fraction) : total;
  const SplitSizes sizes{train, before_test - train, total - before_test};
  require<ConfigError>(total == 0 || val_fraction == 0 || sizes.validation > 0,
                       "data.val_fraction = {} of {} is not one: raise it, or set it to 0 to train without validation",
                       val_fraction, total);
  return sizes;
}

SplitSizes split_lines(int64_t total, const LineSplitConfig& config) {
  const int64_t val_lines = config.val_lines.value_or(0), test_lines = config.test_lines.value_or(0);
  require<ConfigError>(val_lines >= 0 && test_lines >= 0,
                       "data.val_lines = {} and data.test_lines = {}, they must be at least 0", val_lines, test_lines);
  const SplitSizes by_fraction = split_by_fractions(total, config.val_lines ? 0 : config.val_fraction,
                                                    config.test_lines ? 0 : config.test_fraction);
  SplitSizes sizes{0, config.val_lines.value_or(by_fraction.validation), config.test_lines.value_or(by_fraction.test)};
  require<ConfigError>(sizes.validation <= total && sizes.test <= total - sizes.validation,
                       "data.val_lines and data.test_lines, or their fractions, ask for {} and {} lines, there are {}",
                       sizes.validation, sizes.test, total);
  sizes.train = total - sizes.validation - sizes.test;
  return sizes;
}

}  // namespace heed::data
