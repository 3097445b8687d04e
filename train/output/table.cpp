#include "train/output/table.hpp"

#include <algorithm>

#include "train/output/progress.hpp"

namespace heed::train {

std::string in_columns(const std::vector<std::vector<std::string>>& rows, const std::set<size_t>& left) {
  std::vector<int64_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_columns(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string fill(static_cast<size_t>(widths[i] - display_columns(row[i])), ' ');
      line += (i == 0 ? "" : "  ") + (left.contains(i) ? row[i] + fill : fill + row[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

}  // namespace heed::train
