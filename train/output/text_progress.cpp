#include "train/output/text_progress.hpp"

#include <unistd.h>

#include <memory>

#include "autograd/core/host_limits.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/output/terminal.hpp"

namespace heed::train {
namespace {

using Clock = std::chrono::steady_clock;

ProgressFields phase_fields(const std::string& phase, int64_t done, int64_t total, double seconds) {
  // No progress is known while a vocabulary is learned: only its start and its end are reported.
  if (done == 0) return {.fraction = -1, .counter = phase + " …", .details = {}, .eta = {}};
  const double fraction = static_cast<double>(done) / static_cast<double>(std::max(total, done));
  return {.fraction = fraction,
          .counter = fmt::format("{}  {:.0f} %", phase, 100 * fraction),
          .details = {fmt::format("{} of {}", human_bytes(done), human_bytes(total))},
          .eta = "ETA " + duration_text(seconds * (1 - fraction) / fraction)};
}

// For stderr that is not a terminal: a line at most every 30 seconds.
data::Progress lines() {
  return [last = Clock::now()](const char* phase, int64_t done, int64_t total) mutable {
    if (Clock::now() - last < std::chrono::seconds(30)) return;
    last = Clock::now();
    write_notice(fmt::format("{}: {} of {}\n", phase, human_bytes(done), human_bytes(total)));
  };
}

}  // namespace

data::Progress text_progress() {
  // std::function copies its callable, but a ProgressLine cannot be copied.
  const auto line = std::make_shared<ProgressLine>(STDERR_FILENO, write_progress);
  if (!line->enabled()) return lines();
  return [line, last = std::string(), begin = Clock::now()](const char* phase, int64_t done, int64_t total) mutable {
    const bool is_new = phase != last;
    if (is_new) begin = Clock::now();
    last = phase;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (is_new || line->is_due()) line->draw(phase_fields(last, done, total, seconds));
    if (done == total) line->erase();
  };
}

}  // namespace heed::train
