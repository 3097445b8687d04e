// Progress on a terminal: one line that is redrawn in place and never wraps.
//
// Nothing is drawn into a pipe or a file, nor on a terminal without escape sequences (TERM unset or "dumb"): necessary
// information is printed there as plain lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/text_file.hpp"

namespace heed::train {

// Number of terminal columns of UTF-8 text: 2 for wide (East Asian) characters and emoji, 0 for combining marks and
// control characters, 1 for everything else and for each invalid UTF-8 sequence.
int64_t display_columns(std::string_view text);
// The longest prefix of `text` with at most `columns` columns; never splits a character.
std::string_view cut_to_columns(std::string_view text, int64_t columns);

// Whether a progress line can be drawn on `descriptor`: a terminal whose TERM is neither unset nor "dumb".
bool can_redraw(int descriptor);
// The current width of the terminal (it may be resized at any time); 80 if unknown.
int64_t terminal_columns(int descriptor);

struct ProgressFields {
  double fraction = -1;              // of the work done, for the bar; below 0: no bar
  std::string counter;               // "120/2000"
  std::vector<std::string> details;  // most important first
  std::string eta;                   // "ETA 0:42"
};

// One line of at most `columns` columns: bar, counter, details, ETA. If it is too long, the bar shrinks first, then
// details are dropped from the last one on. If no bar fits even without details, the bar is dropped, then details again
// if necessary; finally only the ETA is left (or the counter, if there is no ETA), truncated.
std::string progress_text(const ProgressFields& fields, int64_t columns);
// Joins fields with two spaces; drops fields from the last one on until they fit, but never the first.
std::string join_fields(const std::vector<std::string>& fields, int64_t columns = std::numeric_limits<int64_t>::max());

// The words of a paragraph in lines of at most `columns` columns, each with its line feed; lines after the first begin
// with `indent` spaces.
std::string wrap_words(std::string_view text, int64_t columns, int64_t indent = 0);

class ProgressLine {
 public:
  // Writes text to `descriptor`; must not throw.
  using Write = std::function<void(const std::string&)>;

  ProgressLine(int descriptor, Write write, bool enabled = true)
      : descriptor_(descriptor), write_(std::move(write)), enabled_(enabled && can_redraw(descriptor)) {}
  ~ProgressLine() { erase(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool enabled() const { return enabled_; }
  int64_t columns() const { return terminal_columns(descriptor_); }
  // Whether the line should be redrawn: at most ten times a second, so that the cost is negligible.
  bool is_due() const;
  void draw(const ProgressFields& fields);
  // Clears the line, so that other text can replace it without an empty line.
  void erase();

 private:
  int descriptor_;
  Write write_;
  bool enabled_, drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

// Progress while a text is read, its vocabulary is learned and its tokens are encoded. The callback draws a progress
// line on stderr if that is a terminal, and clears it at the end of each phase; otherwise it prints a plain line at
// most every 30 seconds.
data::Progress text_progress();

}  // namespace heed::train
