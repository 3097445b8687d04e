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

// Decodes the first character of text, which must not be empty.
//   valid       a character of `length` bytes
//   incomplete  text ends inside a possible character: length is the size of text
//   invalid     not UTF-8: length is that of the longest prefix of a character (the maximal subpart), at least 1; these
//               are the bytes that one U+FFFD replaces
Utf8Step next_character(std::string_view text);

// The size of the text in bytes, without an incomplete character at its end.
size_t size_of_whole_characters(std::string_view text);

// Throws ValueError for a surrogate and above U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

// Escapes text for a terminal. Control characters (C0, DEL, C1), line and paragraph separators and bidirectional
// controls become \u001B, bytes that are not UTF-8 become \xFF. Everything else is unchanged, so escaping twice has no
// further effect. Layout::keep leaves line feeds and tabs as they are.
enum class Layout { escape, keep };
std::string printable(std::string_view text, Layout layout = Layout::escape);

// The same in double quotes, with \" and \\ for these two: the form of every path, key and value in messages.
std::string quoted_text(std::string_view text);

// For error messages: `'?' (U+003F)`, or only `U+000A` for a control character.
std::string describe_character(char32_t code_point);

}  // namespace heed::data
