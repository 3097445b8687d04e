#include "train/report/csv_table.hpp"

#include <algorithm>
#include <charconv>

#include "autograd/core/check.hpp"
#include "data/io/posix_file.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

std::vector<std::vector<std::string>> parse_rows(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row(1);
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (is_quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      row.back() += text[++i];
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      row.emplace_back();
    } else if (c == '\n' && !is_quoted) {
      rows.push_back(std::move(row));
      row.assign(1, "");
    } else {
      row.back() += c;
    }
  }
  if (row.size() > 1 || !row[0].empty()) rows.push_back(std::move(row));
  return rows;
}

}  // namespace

std::string read_file(const fs::path& path) {
  const data::PosixFile file(path.string(), data::PosixFile::Access::read);
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  file.read(0, bytes);
  return bytes;
}

CsvTable::CsvTable(const fs::path& path) : path_(path), rows_(parse_rows(read_file(path))) {
  const std::string name = data::quoted_path(path.string());
  require<DataError>(!rows_.empty(), "{} is empty, it must have a header", name);
  columns_ = rows_.front();
  rows_.erase(rows_.begin());
  for (size_t i = 0; i < rows_.size(); ++i) {
    require<DataError>(rows_[i].size() == columns_.size(), "{}: row {} has {} cells, the header has {}", name, i + 1,
                       rows_[i].size(), columns_.size());
  }
}

bool CsvTable::has(std::string_view column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

const std::string& CsvTable::text(size_t row, std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  require<DataError>(found != columns_.end(), "{} has no column {}", data::quoted_path(path_.string()), column);
  return rows_[row][static_cast<size_t>(found - columns_.begin())];
}

std::optional<double> CsvTable::number(size_t row, std::string_view column) const {
  const std::string& cell = text(row, column);
  if (cell.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  require<DataError>(error == std::errc() && end == cell.data() + cell.size(),
                     "{}: row {}: {} is {}, it must be a number", data::quoted_path(path_.string()), row + 1, column,
                     data::quoted_text(cell));
  return value;
}

}  // namespace heed::train
