// What the commands write to stdout and stderr. Nothing else here writes to them: a full disk or a closed pipe is an
// error that must be seen, not output that is missing.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "data/io/utf8.hpp"

namespace heed::train {

// To stdout, at once and as it is: for text that a model wrote. Throws Error with the reason.
void write_output(std::string_view text);

// The same for lines that heed writes: names and values in them can put no control character on a terminal.
template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write_output(data::printable(fmt::format(format, std::forward<Args>(args)...), data::Layout::keep));
}

// One line to stderr, at once, whatever is in it: control characters before its last line feed are escaped. Whether it
// arrives is not checked.
void write_notice(std::string_view text);
// The same as it is, for a progress line.
void write_progress(std::string_view text);

}  // namespace heed::train
