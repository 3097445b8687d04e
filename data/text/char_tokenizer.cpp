#include "data/text/char_tokenizer.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"
#include "data/io/utf8.hpp"

namespace heed::data {

namespace {

std::vector<std::string> pieces_of(std::span<const char32_t> code_points) {
  std::vector<std::string> pieces(code_points.size());
  for (size_t i = 0; i < pieces.size(); ++i) append_utf8(pieces[i], code_points[i]);
  return pieces;
}

[[noreturn]] void refuse_byte(std::string_view rest, int64_t offset) {
  throw DataError(fmt::format("byte {:#04x} at offset {} is not UTF-8", static_cast<uint8_t>(rest.front()), offset));
}

}  // namespace

CharTokenizer::CharTokenizer(std::vector<char32_t> code_points, bool has_end_token)
    : Tokenizer(TokenizerKind::character, pieces_of(code_points), has_end_token), code_points_(std::move(code_points)) {
  for (size_t i = 1; i < code_points_.size(); ++i) {
    require<ValueError>(code_points_[i - 1] < code_points_[i], "the characters of a char tokenizer must rise");
  }
  const bool has_line_feed = std::binary_search(code_points_.begin(), code_points_.end(), U'\n');
  require<ValueError>(!(has_end_token && has_line_feed), "the line feed cannot be a character beside an end token");
  for (char32_t c = 0; c < ascii_ids_.size(); ++c) {
    const auto place = std::lower_bound(code_points_.begin(), code_points_.end(), c);
    const bool known = place != code_points_.end() && *place == c;
    ascii_ids_[c] = known ? static_cast<int32_t>(place - code_points_.begin()) : -1;
  }
  if (has_end_token) ascii_ids_['\n'] = *end_token();
}

int32_t CharTokenizer::id_of(char32_t code_point) const {
  if (code_point < ascii_ids_.size()) return ascii_ids_[code_point];
  const auto place = std::lower_bound(code_points_.begin(), code_points_.end(), code_point);
  const bool known = place != code_points_.end() && *place == code_point;
  return known ? static_cast<int32_t>(place - code_points_.begin()) : -1;
}

std::vector<int32_t> CharTokenizer::encode(std::string_view text, Unknown unknown) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  std::string_view rest = text;
  for (int64_t position = 0; !rest.empty(); ++position) {
    const Utf8Step step = next_character(rest);
    if (step.status != Utf8Status::valid) refuse_byte(rest, static_cast<int64_t>(text.size() - rest.size()));
    const int32_t id = id_of(step.code_point);
    if (id < 0 && unknown == Unknown::refuse) {
      throw UnknownCharacterError(
          fmt::format("character {} at position {} is not in the vocabulary of {} characters: leave it out",
                      describe_character(step.code_point), position, vocab_size()));
    }
    if (id >= 0) ids.push_back(id);
    rest.remove_prefix(step.length);
  }
  return ids;
}

int64_t CharTokenizer::safe_cut(std::string_view text) const {
  return static_cast<int64_t>(size_of_whole_characters(text));
}

std::vector<char32_t> CharTokenizer::code_points_of(std::span<const std::string> pieces) {
  std::vector<char32_t> code_points;
  for (const std::string& piece : pieces) {
    const Utf8Step step = next_character(piece);
    require<ValueError>(step.status == Utf8Status::valid && step.length == static_cast<int64_t>(piece.size()),
                        "a piece of a char tokenizer is not one character");
    code_points.push_back(step.code_point);
  }
  return code_points;
}

void CharacterSet::add(std::string_view piece) {
  const std::string joined = open_.empty() ? std::string() : open_ + std::string(piece);
  std::string_view rest = open_.empty() ? piece : joined;
  open_.clear();
  while (!rest.empty()) {
    const Utf8Step step = next_character(rest);
    if (step.status == Utf8Status::invalid) refuse_byte(rest, offset_);
    if (step.status == Utf8Status::incomplete) {
      open_ = rest;
      return;
    }
    seen_[step.code_point] = true;
    rest.remove_prefix(step.length);
    offset_ += step.length;
  }
}

std::vector<char32_t> CharacterSet::finish() const {
  if (!open_.empty()) refuse_byte(open_, offset_);
  std::vector<char32_t> code_points;
  for (size_t c = 0; c < seen_.size(); ++c) {
    if (seen_[c]) code_points.push_back(static_cast<char32_t>(c));
  }
  return code_points;
}

}  // namespace heed::data
