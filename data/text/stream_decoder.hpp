// Decodes token by token for printing: what it gives is UTF-8 at any time, though a character may span several tokens.
#pragma once

#include "data/text/tokenizer.hpp"

namespace heed::data {

class StreamDecoder {
 public:
  // Keeps a reference to the tokenizer.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // What can be printed once this token is there: whole characters. The beginning of a character is held back. Bytes
  // that can be no character come out as U+FFFD, one for each beginning of a character that breaks off (or stray byte).
  // Throws ValueError for an id outside the vocabulary.
  std::string push(int32_t id);

  // After the last token: U+FFFD for a character that was begun, else nothing. Then it can start anew.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::string open_;
};

}  // namespace heed::data
