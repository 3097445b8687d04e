#include "data/text/text_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

constexpr int64_t kPieceBytes = int64_t{4} << 20;

PosixFile open_text(const std::string& path) {
  require<DataError>(!path.empty(), "data.path is empty, it must name a text file");
  try {
    return PosixFile(path, PosixFile::Access::read);
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}; data.path must name a text file", error.what()));
  }
}

}  // namespace

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

TextFile::TextFile(const std::string& path) : file_(open_text(path)), stamp_(file_.stamp()) {}

void TextFile::require_unchanged() const {
  const FileStamp now = file_.stamp();
  require<DataError>(now.bytes > stamp_.bytes || (now.bytes == stamp_.bytes && now.modified == stamp_.modified),
                     "{} changed while it was read: try again when it is whole", name());
}

std::string for_each_chunk(const TextFile& file, TextForm form, const UsePiece& use) {
  TextNormalizer normalizer(form);
  std::string fresh, text;  // text begins with the bytes that the last call of `use` left
  for (int64_t offset = 0; offset < file.size();) {
    fresh.resize(std::min(kPieceBytes, file.size() - offset));
    file.read(offset, fresh);
    offset += static_cast<int64_t>(fresh.size());
    const bool is_last = offset == file.size();
    normalizer.add(fresh, is_last, text);
    text.erase(0, use({text, fresh, is_last, offset}));
  }
  require<ValueError>(text.empty(), "for_each_chunk: {} bytes at the end were not used", text.size());
  file.require_unchanged();
  return normalizer.changes();
}

}  // namespace heed::data
