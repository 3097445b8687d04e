// Byte-level tokenizer: ids 0 to 255 are the bytes. If there is an end token, it has id 256 and encodes every line
// feed (id 10 then never occurs).
#pragma once

#include "data/text/tokenizer.hpp"

namespace heed::data {

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(bool has_end_token) : Tokenizer(TokenizerKind::byte, byte_pieces(), has_end_token) {}

  std::vector<int32_t> encode(std::string_view text, Unknown = Unknown::refuse) const override {
    std::vector<int32_t> ids;
    ids.reserve(text.size());
    const int32_t line_feed = end_token().value_or('\n');
    for (const char c : text) ids.push_back(c == '\n' ? line_feed : static_cast<uint8_t>(c));
    return ids;
  }

  int64_t safe_cut(std::string_view text) const override { return static_cast<int64_t>(text.size()); }
};

}  // namespace heed::data
