// Incremental decoding for printing: the output is always valid UTF-8, although a character may span several tokens.
#pragma once

#include "data/text/tokenizer.hpp"

namespace heed::data {

class StreamDecoder {
 public:
  // Keeps a reference to the tokenizer.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // Returns the characters that this token completes. An incomplete character is held back. Invalid bytes become
  // U+FFFD, one for each incomplete prefix of a character or stray byte. Throws ValueError for an id outside the
  // vocabulary.
  std::string push(int32_t id);

  // Call after the last token: returns U+FFFD if a character is incomplete, else nothing. The decoder can then be
  // reused.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string open_;
};

}  // namespace heed::data
