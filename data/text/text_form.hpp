// What a text file's marks of other systems become before it is cut into tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/text/tokenizer.hpp"

namespace heed::data {

//   bytes  nothing is changed
//   text   a byte order mark (EF BB BF) at the very beginning is left out, and so are carriage returns right before a
//          line feed: lines end in a line feed alone
//   lines  as text, and carriage returns at the end of the file are left out: they end its last line
enum class TextForm { bytes, text, lines };

// How a tokenizer of this kind reads a text: lines where line feeds are its end token; otherwise bytes for byte, whose
// tokens are the file's bytes, and text for char and bpe.
TextForm text_form(TokenizerKind kind, bool has_end_token);

// Brings a text that comes in pieces, cut anywhere, into its form.
class TextNormalizer {
 public:
  // at_begin: the first piece begins the file.
  explicit TextNormalizer(TextForm form, bool at_begin = true) : form_(form), at_begin_(at_begin) {}

  // Appends what `piece` becomes to text. is_last: the file ends with it.
  void add(std::string_view piece, bool is_last, std::string& text);

  // "byte order mark removed, 12 CRLF line endings converted to LF"; empty: nothing was changed.
  std::string changes() const;

 private:
  TextForm form_;
  bool at_begin_;
  bool had_mark_ = false;
  int64_t line_ends_ = 0;
  size_t held_ = 0;  // carriage returns at the end of the pieces so far
};

}  // namespace heed::data
