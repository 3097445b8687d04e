// Tokenizers: conversion of text to token ids and back.
//
// Each tokenizer has a vocabulary, a table of byte strings indexed by token id, and a rule that splits text into them:
//   char  (data/text/char_tokenizer.hpp)  one token per character (Unicode code point) of the text it was created from
//   byte  (below)                         256 tokens
//   bpe   (data/text/bpe_tokenizer.hpp)   256 bytes and the tokens merged from them, in the order of merging
//   file  (data/text/byte_level_bpe.hpp)  byte-level BPE that another program made, such as GPT-2's
//
// With an end token, as datasets split by lines use it, the line feed is a separate token: the last id. encode()
// returns it for each '\n' and returns no other token with a line feed. The end token therefore ends a line and decodes
// to '\n'.
//
// For every tokenizer and every text that encode() accepts (Unknown::refuse), decode(encode(text)) == text, byte for
// byte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/core/check.hpp"

namespace heed::data {

enum class TokenizerKind : uint8_t { character = 0, byte = 1, bpe = 2, file = 3 };

// The value of data.tokenizer: "char", "byte", "bpe" or "file".
const char* tokenizer_name(TokenizerKind kind);

// How encode() handles a character that is not in the vocabulary; this happens only with a char tokenizer.
enum class Unknown { refuse, skip };
struct UnknownCharacterError : DataError {
  using DataError::DataError;
};

class Tokenizer {
 public:
  static constexpr int64_t kMaxVocabSize = int64_t{1} << 21;  // above 0x110000, the number of code points
  static constexpr int64_t kMaxPieceBytes = 255;

  virtual ~Tokenizer() = default;
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  TokenizerKind kind() const { return kind_; }
  int64_t vocab_size() const { return static_cast<int64_t>(pieces_.size()); }

  // The last id, if the tokenizer has an end token.
  std::optional<int32_t> end_token() const;

  // The first token of generation without a prompt: the end token, else (file) that of the end of a text, else the
  // token of a line feed, else 0.
  virtual int32_t start_token() const;

  // The bytes of one token. They may be an incomplete character: print through a StreamDecoder. Throws ValueError for
  // an id outside the vocabulary, as decode() does.
  std::string_view bytes(int32_t id) const;
  std::string decode(std::span<const int32_t> ids) const;

  // A char tokenizer throws DataError if text is not UTF-8, with the byte and its offset, and UnknownCharacterError for
  // a character that is not in the vocabulary, with the character and its position in characters (both count from 0).
  // Unknown::skip omits such characters instead.
  virtual std::vector<int32_t> encode(std::string_view text, Unknown unknown = Unknown::refuse) const = 0;

  // A position at which a long text may be split: the largest n <= text.size() found for which encode(text[0, n))
  // followed by encode(the rest) equals encode(the whole), no matter what follows text. text.size() - n is at most 255,
  // except for file, whose words have no longest length.
  virtual int64_t safe_cut(std::string_view text) const = 0;

  // Serializes the whole tokenizer, for checkpoints and token files. parse() throws DataError unless its input is
  // exactly the output of serialize().
  std::string serialize() const;
  static std::unique_ptr<Tokenizer> parse(std::string_view serialized);

 protected:
  // pieces: the vocabulary without the end token, which is appended here. Throws ValueError if it is empty or too
  // large.
  Tokenizer(TokenizerKind kind, std::vector<std::string> pieces, bool has_end_token);

  bool has_end_token() const { return has_end_token_; }
  const std::vector<std::string>& pieces() const { return pieces_; }

  // What serialize() writes after the pieces.
  virtual std::string serialized_rules() const { return {}; }

 private:
  TokenizerKind kind_;
  bool has_end_token_;
  std::vector<std::string> pieces_;
};

// The 256 tokens of one byte each, in order.
std::vector<std::string> byte_pieces();

// Ids 0 to 255 are the bytes. If there is an end token, it has id 256 and encodes every line feed (id 10 then never
// occurs).
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

// Incremental decoding for printing: the output is always valid UTF-8, although a character may span several tokens.
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
