#include "train/data_command.hpp"

#include <unistd.h>

#include <chrono>

#include "train/output.hpp"

namespace heed::train {
namespace {

// Elsewhere than on a terminal: a line at most every 30 seconds.
data::Progress lines() {
  using Clock = std::chrono::steady_clock;
  return [last = Clock::now()](const char* phase, int64_t done, int64_t total) mutable {
    if (Clock::now() - last < std::chrono::seconds(30)) return;
    last = Clock::now();
    write_notice(fmt::format("{} {} of {} bytes\n", phase, done, total));
  };
}

// One line on a terminal.
data::Progress bar() {
  if (isatty(STDERR_FILENO) == 0) return lines();
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
