// One token per character (Unicode code point). Ids are in ascending order of code points; the end token is last.
#pragma once

#include <array>

#include "data/text/tokenizer.hpp"

namespace heed::data {

class CharTokenizer final : public Tokenizer {
 public:
  // Throws ValueError unless the code points are characters in strictly ascending order, without a line feed if there
  // is an end token.
  CharTokenizer(std::vector<char32_t> code_points, bool has_end_token);

  std::vector<int32_t> encode(std::string_view text, Unknown unknown = Unknown::refuse) const override;
  int64_t safe_cut(std::string_view text) const override;

  // Throws ValueError unless each of `pieces` is one character.
  static std::vector<char32_t> code_points_of(std::span<const std::string> pieces);

 private:
  int32_t id_of(char32_t code_point) const;  // -1: not in the vocabulary

  std::vector<char32_t> code_points_;
  std::array<int32_t, 128> ascii_ids_{};
};

// Collects the set of characters of a text that is added in chunks, split at any byte.
class CharacterSet {
 public:
  // Throws DataError with the byte and its offset in the whole text if the text is not UTF-8.
  void add(std::string_view piece);

  // The characters so far, in ascending order. Throws DataError if the text ends inside a character.
  std::vector<char32_t> finish() const;

 private:
  std::vector<bool> seen_ = std::vector<bool>(0x110000);
  std::string open_;  // the incomplete character at the end of the last chunk
  int64_t offset_ = 0;
};

}  // namespace heed::data
