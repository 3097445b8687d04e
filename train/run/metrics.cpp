#include "train/run/metrics.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/descriptor.hpp"
#include "data/io/posix_file.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOldHeader =
    "step,tokens,train_loss,val_loss,learning_rate,grad_norm,tokens_per_s,seconds\n";

std::string_view header_of(bool has_average) { return has_average ? kMetricsHeaderWithAverage : kMetricsHeader; }

// The header that the text begins with.
std::string_view header_of(std::string_view text) { return text.substr(0, text.find('\n') + 1); }

struct Rows {
  std::string text;
  int64_t last_step = 0;
};

// Removes the last cell of a line and returns it.
std::string_view take_last_cell(std::string_view& line) {
  const size_t comma = line.rfind(',');
  const std::string_view cell = line.substr(comma + 1);
  line = line.substr(0, comma);
  return cell;
}

// A row below `header`, without the losses at the end of the run, since the run continues.
std::string continued_row(std::string_view line, std::string_view header, bool has_average) {
  std::string_view average;
  if (header == kMetricsHeaderWithAverage) {
    take_last_cell(line);
    average = take_last_cell(line);
  }
  if (header != kOldHeader) take_last_cell(line);
  return fmt::format("{},{}\n", line, has_average ? fmt::format(",{},", average) : "");
}

// The rows of the steps up to `step`. Text after them is not parsed: it may be truncated by a kill.
Rows rows_until(std::string_view text, const std::string& name, int64_t step, bool has_average) {
  require<DataError>(starts_with_metrics_header(text), "{} does not begin with the line {}", name,
                     kMetricsHeader.substr(0, kMetricsHeader.size() - 1));
  const std::string_view header = header_of(text);
  Rows kept{.text = std::string(header_of(has_average))};
  std::string_view rest = text.substr(header.size());
  for (size_t end; kept.last_step < step && (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + end, number);
    require<DataError>(error == std::errc() && *stop == ',' && number > kept.last_step,
                       "{}: the line after the row of step {} is not the row of a later step", name, kept.last_step);
    if (number > step) break;
    kept.text += continued_row(rest.substr(0, end), header, has_average);
    kept.last_step = number;
  }
  return kept;
}

std::string read_text(const fs::path& path) {
  const data::PosixFile file(path.string(), data::PosixFile::Access::read);
  return with_memory({.bytes = file.size(), .what = file.name(), .advice = "move it away, and a new one is started"},
                     [&] {
                       std::string text(static_cast<size_t>(file.size()), '\0');
                       file.read(0, text);
                       return text;
                     });
}

// The same for a file; no rows if it does not exist.
Rows read_rows(const fs::path& path, int64_t step, bool has_average) {
  if (!fs::exists(fs::symlink_status(path))) return {.text = std::string(header_of(has_average))};
  try {
    return rows_until(read_text(path), data::quoted_path(path.string()), step, has_average);
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("resume: {}; repair it, or move it away and a new one is started", error.what()));
  }
}

void replace(const fs::path& path, const std::string& text) {
  try {
    data::write_file_durably(path, text);
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("cannot write {}: {}", path.string(), error.what()));
  }
}

// A cell; nullopt if it is empty.
struct Cell {
  std::optional<double> value;
  bool is_number = true;
};

Cell parse_cell(std::string_view& rest) {
  const size_t end = std::min(rest.find(','), rest.size());
  const std::string_view text = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  if (text.empty()) return {};
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return {value, error == std::errc() && stop == text.data() + text.size()};
}

// nullopt if it is no row.
std::optional<MetricsRow> parse_row(std::string_view line, bool has_average) {
  MetricsRow row;
  double step = 0, tokens = 0;
  double* const required[] = {&step,          &tokens,           &row.train_loss, nullptr, &row.learning_rate,
                              &row.grad_norm, &row.tokens_per_s, &row.seconds};
  for (double* target : required) {
    const Cell cell = parse_cell(line);
    if (!cell.is_number || (target != nullptr && !cell.value)) return std::nullopt;
    if (target == nullptr)
      row.val_loss = cell.value;
    else
      *target = *cell.value;
  }
  bool are_numbers = true;
  for (std::optional<double>* target : {&row.final_val_loss, &row.val_loss_ema, &row.final_val_loss_ema}) {
    if (!has_average && target != &row.final_val_loss) break;
    const Cell cell = parse_cell(line);
    *target = cell.value;
    are_numbers = are_numbers && cell.is_number;
  }
  row.step = static_cast<int64_t>(step);
  row.tokens = static_cast<int64_t>(tokens);
  return are_numbers && line.empty() ? std::optional(row) : std::nullopt;
}

std::string number(std::optional<double> value) { return value ? fmt::format("{:.9g}", *value) : ""; }

}  // namespace

bool starts_with_metrics_header(std::string_view text) {
  const std::string_view header = header_of(text);
  return header == kMetricsHeader || header == kMetricsHeaderWithAverage || header == kOldHeader;
}

std::vector<MetricsRow> read_metrics(const fs::path& path) {
  const std::string text = read_text(path), name = data::quoted_path(path.string());
  require<DataError>(starts_with_metrics_header(text), "{} does not begin with the line {}", name,
                     kMetricsHeader.substr(0, kMetricsHeader.size() - 1));
  const bool has_average = text.starts_with(kMetricsHeaderWithAverage);
  std::vector<MetricsRow> rows;
  std::string_view rest = text;
  for (size_t end = rest.find('\n'); (rest.remove_prefix(end + 1), end = rest.find('\n')) != rest.npos;) {
    const std::optional<MetricsRow> row = parse_row(rest.substr(0, end), has_average);
    require<DataError>(row.has_value(), "{}: line {} is not a row of numbers", name, rows.size() + 2);
    rows.push_back(*row);
  }
  return rows;
}

MetricsFile::MetricsFile(const fs::path& path, std::optional<int64_t> resumed_step, bool has_average)
    : path_(path), has_average_(has_average) {
  const Rows rows =
      resumed_step ? read_rows(path, *resumed_step, has_average) : Rows{.text = std::string(header_of(has_average))};
  last_step_ = rows.last_step;
  replace(path_, rows.text);
  open();
}

MetricsFile::~MetricsFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void MetricsFile::open() {
  file_ = std::fopen(path_.c_str(), "ae");
  if (file_ == nullptr) fail();
}

void MetricsFile::write(const MetricsRow& row) {
  std::string text = fmt::format("{},{},{:.9g},{},{:.9g},{:.9g},{:.9g},{:.9g},{}", row.step, row.tokens, row.train_loss,
                                 number(row.val_loss), row.learning_rate, row.grad_norm, row.tokens_per_s, row.seconds,
                                 number(row.final_val_loss));
  if (has_average_) text += fmt::format(",{},{}", number(row.val_loss_ema), number(row.final_val_loss_ema));
  text += '\n';
  last_step_ = row.step;
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail();
}

void MetricsFile::flush() {
  if (std::fflush(file_) != 0 || std::ferror(file_) != 0) fail();
}

void MetricsFile::sync() {
  flush();
  if (data::retry_interrupted([&] { return ::fsync(::fileno(file_)); }) != 0) fail();
}

bool MetricsFile::set_last(int64_t step, const std::vector<std::pair<Column, std::optional<double>>>& cells) {
  flush();
  if (last_step_ != step) return false;  // its row was missing when the run was resumed
  const std::string before = read_text(path_);
  std::string text = before;
  const size_t row = text.rfind('\n', text.size() - 2) + 1;
  for (const auto& [column, value] : cells) {
    if (!value) continue;
    size_t begin = row;
    for (int i = 0; i < static_cast<int>(column); ++i) begin = text.find(',', begin) + 1;
    text.replace(begin, text.find_first_of(",\n", begin) - begin, number(value));
  }
  std::fclose(std::exchange(file_, nullptr));
  replace(path_, text);
  open();
  return text != before;
}

void MetricsFile::fail() const {
  throw CheckpointError(fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno)));
}

}  // namespace heed::train
