#include "train/output/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>

#include "autograd/core/host_limits.hpp"
#include "data/io/utf8.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"

namespace heed::train {
namespace {

constexpr const char* kClearLine = "\r\033[K";
constexpr int64_t kWidestBar = 24, kNarrowestBar = 5;
constexpr size_t kGap = 2;

struct Range {
  char32_t first, last;
};

// East_Asian_Width W and F of Unicode (UAX #11), as ranges: unassigned code points within a range do not matter.
constexpr Range kWide[] = {{0x1100, 0x115F},   {0x231A, 0x231B},  {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                           {0xA960, 0xA97C},   {0xAC00, 0xD7A3},  {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                           {0xFF01, 0xFF60},   {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
                           {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};
// Combining marks, joiners and variation selectors; control characters.
constexpr Range kZero[] = {{0x0000, 0x001F}, {0x007F, 0x009F}, {0x0300, 0x036F}, {0x0483, 0x0489},
                           {0x0591, 0x05BD}, {0x064B, 0x065F}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
                           {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064}, {0x20D0, 0x20FF},
                           {0x3099, 0x309A}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}};

template <size_t N>
bool is_in(const Range (&ranges)[N], char32_t c) {
  return std::any_of(std::begin(ranges), std::end(ranges), [c](const Range& r) { return r.first <= c && c <= r.last; });
}

int64_t columns_of(const data::Utf8Step& step) {
  if (step.status != data::Utf8Status::valid) return 1;
  if (is_in(kZero, step.code_point)) return 0;
  return is_in(kWide, step.code_point) ? 2 : 1;
}

std::string bar_text(double fraction, int64_t cells) {
  const auto full = static_cast<int64_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(cells));
  return "[" + std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(cells - full), '.') + "]";
}

// Omits empty fields and their gaps.
std::string join(const std::vector<std::string>& fields) {
  std::string text;
  for (const std::string& field : fields) {
    if (!text.empty() && !field.empty()) text += std::string(kGap, ' ');
    text += field;
  }
  return text;
}

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

int64_t display_columns(std::string_view text) {
  int64_t columns = 0;
  while (!text.empty()) {
    const data::Utf8Step step = data::next_character(text);
    columns += columns_of(step);
    text.remove_prefix(static_cast<size_t>(step.length));
  }
  return columns;
}

std::string_view cut_to_columns(std::string_view text, int64_t columns) {
  size_t end = 0;
  while (end < text.size()) {
    const data::Utf8Step step = data::next_character(text.substr(end));
    columns -= columns_of(step);
    if (columns < 0) break;
    end += static_cast<size_t>(step.length);
  }
  return text.substr(0, end);
}

bool can_redraw(int descriptor) {
  const char* const term = std::getenv("TERM");
  const std::string_view name = term == nullptr ? "" : term;
  return !name.empty() && name != "dumb" && isatty(descriptor) != 0;
}

int64_t terminal_columns(int descriptor) {
  constexpr int64_t kUnknown = 80;
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUnknown;
}

std::string progress_text(const ProgressFields& fields, int64_t columns) {
  const auto text_with = [&](size_t details) {
    std::vector<std::string> parts{fields.counter};
    parts.insert(parts.end(), fields.details.begin(), fields.details.begin() + static_cast<int64_t>(details));
    parts.push_back(fields.eta);
    return join(parts);
  };
  for (size_t more = fields.details.size() + 1; fields.fraction >= 0 && more-- > 0;) {
    const std::string text = text_with(more);
    const int64_t cells = std::min(kWidestBar, columns - display_columns(text) - 3);  // two brackets and a space
    if (cells >= kNarrowestBar) return bar_text(fields.fraction, cells) + " " + text;
  }
  for (size_t more = fields.details.size() + 1; more-- > 0;) {
    if (std::string text = text_with(more); display_columns(text) <= columns) return text;
  }
  return std::string(cut_to_columns(fields.eta.empty() ? fields.counter : fields.eta, columns));
}

std::string join_fields(const std::vector<std::string>& fields, int64_t columns) {
  std::vector<std::string> shown = fields;
  while (shown.size() > 1 && display_columns(join(shown)) > columns) shown.pop_back();
  return join(shown);
}

std::string wrap_words(std::string_view text, int64_t columns, int64_t indent) {
  std::string lines, line;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string word(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && display_columns(line) + 1 + display_columns(word) > columns) {
      lines += line + "\n";
      line = std::string(static_cast<size_t>(indent), ' ') + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
  }
  return lines + line + "\n";
}

bool ProgressLine::is_due() const {
  constexpr std::chrono::milliseconds kInterval(100);
  return enabled_ && std::chrono::steady_clock::now() - last_ >= kInterval;
}

void ProgressLine::draw(const ProgressFields& fields) {
  if (!enabled_) return;
  last_ = std::chrono::steady_clock::now();
  drawn_ = true;
  // Leaves the last column free: some terminals wrap as soon as it is written.
  write_("\r" + progress_text(fields, columns() - 1) + "\033[K");
}

void ProgressLine::erase() {
  if (drawn_) write_(kClearLine);
  drawn_ = false;
}

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
