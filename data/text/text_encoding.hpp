// From a text file to its tokenizer, and through that to tokens, in bounded memory.
#pragma once

#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

struct TokenizerConfig {
  TokenizerKind kind = TokenizerKind::character;
  int64_t vocab_size = 0;  // bpe: ids in all, the end token included; the others find theirs from the text
  bool has_end_token = false;
};

// A bpe vocabulary is learned from the whole text up to this size; of a longer one from that much, in blocks spread
// evenly over it. Of very many different words, as in texts without blanks, a part is enough
// (data/text/bpe_trainer.hpp): that bounds memory and time.
inline constexpr int64_t kBpeSampleBytes = int64_t{32} << 20;

// Made from the whole text, so that a character that only the validation split has is known.
// Throws DataError naming the file and the byte offset where a char tokenizer meets what is not UTF-8; ConfigError
// naming data.vocab_size if bpe cannot have that many entries, with what is possible; ConfigError if the build lacks
// bpe.
std::unique_ptr<Tokenizer> make_tokenizer(const TextFile& file, const TokenizerConfig& config,
                                          const Progress& progress = {});

// Gives the tokens of the whole text in order, piece by piece, and so the bytes of the file. Both functions read the
// text in its text_form(): the tokens are those of the text without byte order mark and carriage returns at line ends,
// for byte they are the bytes of the file. Gives what was changed, for the user (TextNormalizer::changes()).
using UseTokens = std::function<void(std::span<const int32_t> tokens, std::string_view file_bytes)>;
std::string encode_file(const TextFile& file, const Tokenizer& tokenizer, const UseTokens& use,
                        const Progress& progress = {});

}  // namespace heed::data
