#include "train/commands/position_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/output/number_text.hpp"
#include "train/output/table.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

bool is_position_table(const fs::path& file) {
  if (!fs::is_regular_file(fs::symlink_status(file))) return false;
  const data::PosixFile opened(file.string(), data::PosixFile::Access::read);
  std::string start(std::min<size_t>(opened.size(), PositionTable::kHeader.size()), '\0');
  opened.read(0, start);
  return start == PositionTable::kHeader;
}

std::string range_text(int64_t first, int64_t last) {
  return first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last);
}

}  // namespace

std::string PositionTable::add(const std::string& split, const PositionLosses& positions) {
  std::vector<std::vector<std::string>> table{{"context", "targets", "loss"}};
  const auto count = std::ssize(positions.losses);
  for (int64_t first = 1, last = 1; first <= count; first = last + 1, last = std::min(2 * last, count)) {
    double loss = 0;
    int64_t targets = 0;
    for (int64_t context = first; context <= last; ++context) {
      const double here = positions.losses[context - 1];
      const int64_t here_targets = positions.targets[context - 1];
      loss += here;
      targets += here_targets;
      if (here_targets == 0) continue;
      rows_ += fmt::format("{},{},{},{:.9g}\n", split, context, here_targets, here / static_cast<double>(here_targets));
    }
    if (targets == 0) continue;
    table.push_back(
        {range_text(first, last), fmt::format("{}", targets), loss_text(loss / static_cast<double>(targets))});
  }
  return in_columns(table, {});
}

void PositionTable::write(const fs::path& file) const {
  require_replaceable(file);
  try {
    data::write_file_durably(file, std::string(kHeader) + rows_);
  } catch (const CheckpointError& error) {
    throw Error(fmt::format("eval: cannot write {}: {}", data::quoted_path(file.string()), error.what()));
  }
}

void PositionTable::require_replaceable(const fs::path& file) {
  require<ConfigError>(!fs::exists(fs::symlink_status(file)) || is_position_table(file),
                       "eval: --csv: {} exists and was not written by heed eval: move it away, or choose another file",
                       data::quoted_path(file.string()));
}

}  // namespace heed::train
