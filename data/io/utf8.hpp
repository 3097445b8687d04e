// UTF-8 as Unicode defines it (The Unicode Standard, table 3-7): no overlong forms, no surrogates, at most U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::data {

enum class Utf8Status { valid, invalid, incomplete };

struct Utf8Step {
  Utf8Status status = Utf8Status::invalid;
  int64_t length = 0;       // bytes, at least 1
  char32_t code_point = 0;  // if valid
};

// What text begins with; it must not be empty.
//   valid       a character of `length` bytes
//   incomplete  text ends inside what may become a character: length is all of it
//   invalid     bytes that are no UTF-8: length is the longest beginning of a character among them, or 1, which is what
//               one U+FFFD stands for
Utf8Step next_character(std::string_view text);

// Throws ValueError for a surrogate and beyond U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

// What a terminal can show: control characters (C0, DEL, C1), line and paragraph separators and those that change the
// direction of text become \u001B, bytes that are not UTF-8 \xFF. All else stays, so this can be applied to what went
// through it already. Line feeds and tabs stay if they are layout.
enum class Layout { escape, keep };
std::string printable(std::string_view text, Layout layout = Layout::escape);

// The same in double quotes, with \" and \\ for those two: how every message names a path, a key or a value.
std::string quoted_text(std::string_view text);

// For error texts: `'?' (U+003F)`, and only `U+000A` for a control character.
std::string describe_character(char32_t code_point);

}  // namespace heed::data
