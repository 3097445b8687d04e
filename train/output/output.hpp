// Output of the commands to stdout and stderr. No other code here writes to them: a full disk or a closed pipe must be
// reported as an error instead of losing output.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "data/io/utf8.hpp"

namespace heed::train {

// Writes text to stdout unchanged and flushes it, for text that a model generated. Throws Error with the reason.
void write_output(std::string_view text);

// The same for heed's own lines: control characters in names and values are escaped.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write_output(data::printable(fmt::format(format, std::forward<Args>(args)...), data::Layout::keep));
}

// Writes one line to stderr and flushes it; control characters before its last line feed are escaped. Errors of the
// write are ignored.
void write_notice(std::string_view text);
// The same without escaping, for a progress line.
void write_progress(std::string_view text);

}  // namespace heed::train
