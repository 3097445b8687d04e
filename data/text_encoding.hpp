// From a text file to its tokenizer, and through that to tokens, in bounded memory.
#pragma once

#include "data/text_file.hpp"
#include "data/tokenizer.hpp"

namespace heed::data {

struct TokenizerConfig {
  TokenizerKind kind = TokenizerKind::character;
  int64_t vocab_size = 0;  // bpe: ids in all, the end token included; the others find theirs from the text
  bool has_end_token = false;
};

// A bpe vocabulary is learned from the whole text up to this size; of a longer one from that much, in blocks spread
// evenly over it. Learning takes memory for each different word: 0.8 GB where a quarter of the words are random letters
// (measured), 0.06 GB for a play of Shakespeare.
inline constexpr int64_t kBpeSampleBytes = int64_t{32} << 20;

// Made from the whole text, so that a character that only the validation split has is known.
// Throws DataError naming the file and the byte offset where a char tokenizer meets what is not UTF-8; ConfigError
// naming data.vocab_size if bpe cannot have that many entries, with what is possible; ConfigError if the build lacks
// bpe.
std::unique_ptr<Tokenizer> make_tokenizer(const TextFile& file, const TokenizerConfig& config,
                                          const Progress& progress = {});

// Gives the tokens of the whole text in order, piece by piece, each with the bytes that it encodes.
using UseTokens = std::function<void(std::span<const int32_t> tokens, std::string_view text)>;
void encode_file(const TextFile& file, const Tokenizer& tokenizer, const UseTokens& use, const Progress& progress = {});

}  // namespace heed::data
