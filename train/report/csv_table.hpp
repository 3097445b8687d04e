// A CSV file with a header, read whole (RFC 4180: a cell in quotes may hold commas, line feeds and doubled quotes).
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace heed::train {

// The bytes of a file. Throws DataError with the file.
std::string read_file(const std::filesystem::path& path);

class CsvTable {
 public:
  // Throws DataError with the file if it cannot be read, has no header, or has a row of another length.
  explicit CsvTable(const std::filesystem::path& path);

  size_t rows() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  bool has(std::string_view column) const;

  // Both throw DataError with the file if it has no such column.
  const std::string& text(size_t row, std::string_view column) const;
  // Returns nullopt for an empty cell. Throws DataError, too, if the cell is not a number.
  std::optional<double> number(size_t row, std::string_view column) const;

 private:
  std::filesystem::path path_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace heed::train
