// Splits a text into training, validation and test data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heed::data {

// Tokens or lines of each split, which are in this order: train | validation | test.
struct SplitSizes {
  int64_t train = 0;
  int64_t validation = 0;
  int64_t test = 0;

  int64_t total() const { return train + validation + test; }
};

// The fractions must be at least 0 and their sum below 1; the rest is for training. Validation starts at
// floor(N · (1 - val - test)), test at floor(N · (1 - test)). Throws ConfigError naming data.val_fraction and
// data.test_fraction, also if a val_fraction above 0 results in an empty split: training without validation must be
// explicit (0).
SplitSizes split_by_fractions(int64_t total, double val_fraction, double test_fraction);

struct LineSplitConfig {
  double val_fraction = 0.1;
  double test_fraction = 0.0;
  std::optional<int64_t> val_lines = {};  // number of lines, overrides the fraction
  std::optional<int64_t> test_lines = {};
};

// As above for lines. Throws ConfigError naming the keys if val_lines or test_lines is negative, or if validation and
// test need more than `total` lines.
SplitSizes split_lines(int64_t total, const LineSplitConfig& config);

}  // namespace heed::data
