#include "data/io/utf8.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

uint8_t byte_at(std::string_view text, int64_t i) { return static_cast<uint8_t>(text[i]); }

// Length in bytes of a character that begins with `first`; 0 if there is none.
int64_t length_from(uint8_t first) {
  if (first < 0x80) return 1;
  if (0xC2 <= first && first <= 0xDF) return 2;
  if (0xE0 <= first && first <= 0xEF) return 3;
  if (0xF0 <= first && first <= 0xF4) return 4;
  return 0;
}

// The second byte reveals overlong forms, surrogates and code points above U+10FFFF.
bool may_follow(uint8_t first, uint8_t second) {
  const uint8_t lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t highest = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  return lowest <= second && second <= highest;
}

// C0, DEL, C1; line and paragraph separators; bidirectional controls.
bool is_control(char32_t c) {
  return c < 0x20 || (0x7F <= c && c < 0xA0) || (0x2028 <= c && c <= 0x202E) || (0x2066 <= c && c <= 0x2069);
}

}  // namespace

Utf8Step next_character(std::string_view text) {
  require<ValueError>(!text.empty(), "next_character: no text");
  const uint8_t first = byte_at(text, 0);
  const int64_t length = length_from(first);
  if (length == 0) return {Utf8Status::invalid, 1};
  if (length == 1) return {Utf8Status::valid, 1, first};
  char32_t code_point = first & (0x7Fu >> length);
  const int64_t available = std::min<int64_t>(length, static_cast<int64_t>(text.size()));
  for (int64_t i = 1; i < available; ++i) {
    const uint8_t byte = byte_at(text, i);
    const bool fits = i == 1 ? may_follow(first, byte) : (byte & 0xC0) == 0x80;
    if (!fits) return {Utf8Status::invalid, i};
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  if (available < length) return {Utf8Status::incomplete, available};
  return {Utf8Status::valid, length, code_point};
}

size_t size_of_whole_characters(std::string_view text) {
  // Only the last three bytes can be the start of an incomplete character.
  for (size_t cut = text.size() - std::min<size_t>(text.size(), 3); cut < text.size(); ++cut) {
    if (next_character(text.substr(cut)).status == Utf8Status::incomplete) return cut;
  }
  return text.size();
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto c = static_cast<uint32_t>(code_point);
  require<ValueError>(c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF), "append_utf8: {:#x} is not a character", c);
  const auto append = [&](uint32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    append(c);
    return;
  }
  if (c < 0x800) {
    append(0xC0 | c >> 6);
  } else if (c < 0x10000) {
    append(0xE0 | c >> 12);
    append(0x80 | (c >> 6 & 0x3F));
  } else {
    append(0xF0 | c >> 18);
    append(0x80 | (c >> 12 & 0x3F));
    append(0x80 | (c >> 6 & 0x3F));
  }
  append(0x80 | (c & 0x3F));
}

std::string printable(std::string_view text, Layout layout) {
  std::string shown;
  while (!text.empty()) {
    const Utf8Step step = next_character(text);
    const std::string_view bytes = text.substr(0, static_cast<size_t>(step.length));
    const bool is_layout = layout == Layout::keep && (bytes == "\n" || bytes == "\t");
    if (step.status != Utf8Status::valid) {
      for (const char c : bytes) shown += fmt::format("\\x{:02X}", static_cast<uint8_t>(c));
    } else if (is_control(step.code_point) && !is_layout) {
      shown += fmt::format("\\u{:04X}", static_cast<uint32_t>(step.code_point));
    } else {
      shown += bytes;
    }
    text.remove_prefix(bytes.size());
  }
  return shown;
}

std::string quoted_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return '"' + printable(escaped) + '"';
}

std::string describe_character(char32_t code_point) {
  const std::string number = fmt::format("U+{:04X}", static_cast<uint32_t>(code_point));
  if (is_control(code_point)) return number;
  std::string character;
  append_utf8(character, code_point);
  return fmt::format("'{}' ({})", character, number);
}

}  // namespace heed::data
