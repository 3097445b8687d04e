#include "train/data_command.hpp"

#include <unistd.h>

#include "train/output.hpp"

namespace heed::train {
namespace {

// One line on a terminal, nothing elsewhere.
data::Progress bar() {
  if (isatty(STDERR_FILENO) == 0) return {};
  return [last = -1](const char* phase, int64_t done, int64_t total) mutable {
    const int percent =
        total > 0 ? static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total)) : 0;
    if (percent == last) return;
    last = percent;
    write_notice(fmt::format("\r\033[K{} {} %{}", phase, percent, done == total ? "\r\033[K" : ""));
  };
}

}  // namespace

void run_data_prepare(const data::PrepareConfig& config) {
  data::prepare_token_file(config, bar());
  print("{}", data::describe_token_file(config.output_path));
}

void run_data_info(const std::string& path) { print("{}", data::describe_token_file(path, bar())); }

}  // namespace heed::train
