// Tables of text for a terminal.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace heed::train {

// Rows of cells in columns, two spaces apart, each row with its line feed. All rows have as many cells as the first
// one, the header. The columns in `left` are flush left, the others flush right.
std::string in_columns(const std::vector<std::vector<std::string>>& rows, const std::set<size_t>& left);

}  // namespace heed::train
