// Creates the tokenizer of a text file and encodes the file with it, in bounded memory.
#pragma once

#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

struct TokenizerConfig {
  TokenizerKind kind = TokenizerKind::character;
  int64_t vocab_size = 0;  // bpe: number of ids, including the end token; unused by the other kinds
  bool has_end_token = false;
  std::string tokenizer_file = {};  // file: its path (data/text/tokenizer_file.hpp)
};

// A bpe vocabulary is learned from the whole text up to this size, and from a sample of this size of a longer text: 64
// evenly spaced chunks. If there are very many different words, as in texts without spaces, a subset of them is used
// (data/text/bpe_trainer.hpp). Both bound memory and time.
inline constexpr int64_t kBpeSampleBytes = int64_t{32} << 20;

// Creates the tokenizer from the text of all splits, so that characters that occur only in validation are in the
// vocabulary. Throws DataError with the file and the byte offset if a char tokenizer reads bytes that are not UTF-8 (or
// with the file, if there are no characters); ConfigError naming data.vocab_size, with the possible values, if bpe
// cannot have that many ids; ConfigError if the build cannot train bpe; the errors of read_tokenizer_file().
std::unique_ptr<Tokenizer> make_tokenizer(const TextFile& file, const TokenizerConfig& config,
                                          const Progress& progress = {});

// Passes the tokens of the whole text to `use`, in order and chunk by chunk, and with them all bytes of the file. Both
// functions read the text in its text_form(), without a byte order mark and without carriage returns at line ends; for
// byte without an end token, these are the unchanged bytes of the file. Returns a description of the changes for the
// user (TextNormalizer::changes()).
using UseTokens = std::function<void(std::span<const int32_t> tokens, std::string_view file_bytes)>;
std::string encode_file(const TextFile& file, const Tokenizer& tokenizer, const UseTokens& use,
                        const Progress& progress = {});

}  // namespace heed::data
