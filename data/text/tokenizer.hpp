// Tokenizers: text to token ids and back.
//
// Each is a table of pieces of bytes, a token id being an index into it, and a rule that cuts text into such pieces:
//   char  (data/text/char_tokenizer.hpp)  one token per character (Unicode code point) of the text it was made from
//   byte  (data/text/byte_tokenizer.hpp)  256 tokens
//   bpe   (data/text/bpe_tokenizer.hpp)   256 bytes and pieces merged from them, most frequent first
//
// With an end token, which sources of lines use, the line feed is a token of its own: the last id. encode() gives it
// for each '\n' and no other token contains one, so it ends a line and decodes as its '\n'.
//
// For every tokenizer decode(encode(text)) == text, byte for byte, for every text that encode() takes.
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

enum class TokenizerKind : uint8_t { character = 0, byte = 1, bpe = 2 };

// As data.tokenizer names them: "char", "byte", "bpe".
const char* tokenizer_name(TokenizerKind kind);

// What encode() does with a character that has no token; only a char tokenizer meets one.
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

  // The last id, if line feeds are a token of their own.
  std::optional<int32_t> end_token() const;

  // What generation without a prompt begins with: the end token; without one the token of a line feed; without that 0.
  int32_t start_token() const;

  // The bytes of one token. They need not be whole characters: print through a StreamDecoder. Throws ValueError for an
  // id outside the vocabulary, as decode() does.
  std::string_view bytes(int32_t id) const;
  std::string decode(std::span<const int32_t> ids) const;

  // Throws DataError: a char tokenizer for text that is not UTF-8, naming the byte and its offset, and for a character
  // that has no token, naming it and its position in characters (both count from 0). Unknown::skip leaves the latter
  // out.
  virtual std::vector<int32_t> encode(std::string_view text, Unknown unknown = Unknown::refuse) const = 0;

  // The largest n <= text.size() found for which encode(text[0, n)) followed by encode(the rest) is
  // encode(the whole), whatever comes after text: where a long text may be cut. text.size() - n is at most 255.
  virtual int64_t safe_cut(std::string_view text) const = 0;

  // The whole tokenizer as bytes, for checkpoints and token files. parse() throws DataError unless it is given exactly
  // what serialize() gave.
  std::string serialize() const;
  static std::unique_ptr<Tokenizer> parse(std::string_view serialized);

 protected:
  // pieces without the end token, which is added here. Throws ValueError for a table that is empty or too large.
  Tokenizer(TokenizerKind kind, std::vector<std::string> pieces, bool has_end_token);

  bool has_end_token() const { return has_end_token_; }
  const std::vector<std::string>& pieces() const { return pieces_; }

 private:
  TokenizerKind kind_;
  bool has_end_token_;
  std::vector<std::string> pieces_;
};

// The 256 pieces of one byte each, in order.
std::vector<std::string> byte_pieces();

}  // namespace heed::data
