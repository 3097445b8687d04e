// Covering arrays of strength two: few combinations of the values of several factors in which every value of a factor
// occurs with every value of every other factor. Most faults of a combination show with two values already (Kuhn,
// Wallace, Gallo 2004, "Software fault interactions and implications for software testing").
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace heed::test {

class CoveringArray {
 public:
  // counts: the number of values of each factor, at least 1.
  explicit CoveringArray(std::vector<size_t> counts) : counts_(std::move(counts)), first_(counts_.size()) {
    std::exclusive_scan(counts_.begin(), counts_.end(), first_.begin(), size_t{0});
    const size_t values = std::accumulate(counts_.begin(), counts_.end(), size_t{0});
    seen_.assign(values, std::vector<bool>(values, false));
    for (std::vector<size_t> row = begin_row(); !row.empty(); row = begin_row()) {
      for (size_t factor = 0; factor < row.size(); ++factor) {
        if (row[factor] == kOpen) row[factor] = best_value(row, factor);
      }
      mark(row);
      rows_.push_back(row);
    }
  }

  // Each row has the index of a value for each factor. The same counts give the same rows.
  const std::vector<std::vector<size_t>>& rows() const { return rows_; }

 private:
  static constexpr size_t kOpen = static_cast<size_t>(-1);

  // A row with one pair of values that occurs in no row so far; empty if there is none.
  std::vector<size_t> begin_row() const {
    for (size_t a = 0; a < counts_.size(); ++a) {
      for (size_t b = a + 1; b < counts_.size(); ++b) {
        for (size_t pair = 0; pair < counts_[a] * counts_[b]; ++pair) {
          const size_t value_a = pair / counts_[b], value_b = pair % counts_[b];
          if (seen_[first_[a] + value_a][first_[b] + value_b]) continue;
          std::vector<size_t> row(counts_.size(), kOpen);
          row[a] = value_a;
          row[b] = value_b;
          return row;
        }
      }
    }
    return {};
  }

  // The value with the most new pairs. Among equals the one that begins with the row's number, so that they alternate.
  size_t best_value(const std::vector<size_t>& row, size_t factor) const {
    size_t best = 0, most = 0;
    for (size_t i = 0; i < counts_[factor]; ++i) {
      const size_t value = (rows_.size() + factor + i) % counts_[factor];
      size_t pairs = 0;
      for (size_t other = 0; other < row.size(); ++other) {
        if (other != factor && row[other] != kOpen) pairs += !seen_[first_[factor] + value][first_[other] + row[other]];
      }
      if (i == 0 || pairs > most) best = value, most = pairs;
    }
    return best;
  }

  void mark(const std::vector<size_t>& row) {
    for (size_t a = 0; a < row.size(); ++a) {
      for (size_t b = 0; b < row.size(); ++b) seen_[first_[a] + row[a]][first_[b] + row[b]] = a != b;
    }
  }

  std::vector<size_t> counts_, first_;   // of each factor: its values, and the number of all values before them
  std::vector<std::vector<bool>> seen_;  // by two of all values
  std::vector<std::vector<size_t>> rows_;
};

}  // namespace heed::test
