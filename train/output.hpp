// What the commands write to stdout and stderr. Nothing else here writes to them: a full disk or a closed pipe is an
// error that must be seen, not output that is missing.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace heed::train {

// To stdout, at once. Throws Error with the reason.
void write_output(std::string_view text);

template <class... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}

// To stderr, at once. Whether it arrives is nobody's to know.
void write_notice(std::string_view text);

}  // namespace heed::train
