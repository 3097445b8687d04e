// A text in an error message that may be of any length.
#pragma once

#include <string>
#include <string_view>

#include "data/io/utf8.hpp"

namespace heed::data {

// quoted_text() of the first 60 bytes.
inline std::string quoted_start(std::string_view text) {
  constexpr size_t kShown = 60;
  return quoted_text(text.substr(0, kShown)) + (text.size() > kShown ? " …" : "");
}

}  // namespace heed::data
