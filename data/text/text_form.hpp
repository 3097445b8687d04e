// Normalization of byte order marks and line endings before a text is tokenized.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/text/tokenizer.hpp"

namespace heed::data {

//   bytes  unchanged
//   text   without a byte order mark (EF BB BF) at the very start, and without carriage returns directly before a line
//          feed: lines end in a line feed alone
//   lines  as text, and without carriage returns at the end of the file: they end its last line
enum class TextForm { bytes, text, lines };

// The form in which such a tokenizer reads a text: lines if it has an end token; otherwise bytes for byte, whose tokens
// are the bytes of the file, and text for char and bpe.
TextForm text_form(TokenizerKind kind, bool has_end_token);

// Normalizes a text that is added in chunks. Chunks may be split at any byte, except inside the byte order mark.
class TextNormalizer {
 public:
  // at_begin: the first chunk is the start of the file.
  explicit TextNormalizer(TextForm form, bool at_begin = true) : form_(form), at_begin_(at_begin) {}

  // Appends the normalized chunk `piece` to text. is_last: the file ends with this chunk.
  void add(std::string_view piece, bool is_last, std::string& text);

  // "byte order mark removed, 12 CRLF line endings converted to LF"; empty if nothing was changed.
  std::string changes() const;

 private:
  TextForm form_;
  bool at_begin_;
  bool had_mark_ = false;
  int64_t line_ends_ = 0;
  size_t held_ = 0;  // carriage returns at the end of the chunks so far
};

}  // namespace heed::data
