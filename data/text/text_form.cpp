#include "data/text/text_form.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace heed::data {

TextForm text_form(TokenizerKind kind, bool has_end_token) {
  if (has_end_token) return TextForm::lines;
  return kind == TokenizerKind::byte ? TextForm::bytes : TextForm::text;
}

void TextNormalizer::add(std::string_view piece, bool is_last, std::string& text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (form_ == TextForm::bytes) {
    text += piece;
    return;
  }
  if (at_begin_ && piece.starts_with(kMark)) {
    piece.remove_prefix(kMark.size());
    had_mark_ = true;
  }
  at_begin_ = false;
  while (!piece.empty()) {
    const size_t returns = std::min(piece.find_first_not_of('\r'), piece.size());
    held_ += returns;
    piece.remove_prefix(returns);
    if (piece.empty()) break;
    const bool ends_line = piece.front() == '\n';
    if (ends_line && held_ > 0) ++line_ends_;
    if (!ends_line) text.append(held_, '\r');
    held_ = 0;
    const size_t plain = std::min(piece.find('\r'), piece.size());
    text += piece.substr(0, plain);
    piece.remove_prefix(plain);
  }
  if (!is_last || held_ == 0) return;
  if (form_ == TextForm::lines) {
    ++line_ends_;
  } else {
    text.append(held_, '\r');
  }
  held_ = 0;
}

std::string TextNormalizer::changes() const {
  std::string text = had_mark_ ? "byte order mark removed" : "";
  if (line_ends_ > 0)
    text += fmt::format("{}{} CRLF line endings converted to LF", text.empty() ? "" : ", ", line_ends_);
  return text;
}

}  // namespace heed::data
