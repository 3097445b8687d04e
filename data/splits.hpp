// How a text is cut into training, validation and test.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace heed::data {

// Tokens or lines of each split, in the order in which they stand: train | validation | test.
struct SplitSizes {
  int64_t train = 0;
  int64_t validation = 0;
  int64_t test = 0;

  int64_t total() const { return train + validation + test; }
};

// Shares of the whole, 0 <= each, together < 1; the rest is for training. Cut at floor(N · (1 - val - test)) and
// floor(N · (1 - test)). Throws ConfigError naming data.val_fraction and data.test_fraction; also where a share for
// validation comes out as nothing, since a run without validation must be meant (0).
SplitSizes split_by_fractions(int64_t total, double val_fraction, double test_fraction);

struct LineSplitConfig {
  double val_fraction = 0.1;
  double test_fraction = 0.0;
  std::optional<int64_t> val_lines = {};  // that many lines, in place of the fraction
  std::optional<int64_t> test_lines = {};
};

// As above for lines. Throws ConfigError naming the keys if val_lines and test_lines are not >= 0, or ask for more
// lines than the `total` there are.
SplitSizes split_lines(int64_t total, const LineSplitConfig& config);

}  // namespace heed::data
