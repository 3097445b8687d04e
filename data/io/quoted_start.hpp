// Shortens a text from a file for an error message.
#pragma once

#include <string>
#include <string_view>

#include "data/io/utf8.hpp"

namespace heed::data {

// quoted_text() of at most the first 120 bytes, cut at the end of a character.
inline std::string quoted_start(std::string_view text) {
  constexpr size_t kShown = 120;
  if (text.size() <= kShown) return quoted_text(text);
  text = text.substr(0, kShown);
  return quoted_text(text.substr(0, size_of_whole_characters(text))) + " …";
}

}  // namespace heed::data
