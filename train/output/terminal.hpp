// Progress on a terminal: one line that is redrawn in place and never wraps.
//
// Nothing is drawn into a pipe or a file, nor on a terminal that understands no escape sequences (TERM unset or
// "dumb"): what must be known there is printed as plain lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace heed::train {

// Columns that UTF-8 text takes on a terminal: 2 for wide (East Asian) characters and emoji, 0 for combining marks and
// control characters, 1 for everything else, also for a byte that is not UTF-8.
int64_t display_columns(std::string_view text);
// The longest beginning of `text` that takes at most `columns`; never cuts a character.
std::string_view cut_to_columns(std::string_view text, int64_t columns);

// Whether a progress line can be drawn there: a terminal whose TERM is neither unset nor "dumb".
bool can_redraw(int descriptor);
// The width of the terminal as it is now (it may be resized at any time); 80 where it is unknown.
int64_t terminal_columns(int descriptor);

struct ProgressFields {
  double fraction = -1;              // of the work that is done, for the bar; below 0: no bar
  std::string counter;               // "120/2000"
  std::vector<std::string> details;  // by importance
  std::string eta;                   // "ETA 0:42"
};

// One line of at most `columns`: bar, counter, details, ETA. Where it would be longer, the bar shrinks first, then
// details are left out from the last one on, then the bar; counter and ETA stay as long as there is room for them.
std::string progress_text(const ProgressFields& fields, int64_t columns);
// Fields with two spaces between, as many from the first on as fit.
std::string join_fields(const std::vector<std::string>& fields, int64_t columns = std::numeric_limits<int64_t>::max());

class ProgressLine {
 public:
  // Gets what is to be written to `descriptor`; must not throw.
  using Write = std::function<void(const std::string&)>;

  ProgressLine(int descriptor, Write write, bool enabled = true)
      : descriptor_(descriptor), write_(std::move(write)), enabled_(enabled && can_redraw(descriptor)) {}
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool enabled() const { return enabled_; }
  int64_t columns() const { return terminal_columns(descriptor_); }
  // Whether it is time to draw again: at most ten times a second, so that drawing costs nothing.
  bool is_due() const;
  void draw(const ProgressFields& fields);
  // Clears the line, so that other text can be written in its place. No empty line is left.
  void erase();

 private:
  int descriptor_;
  Write write_;
  bool enabled_, drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace heed::train
