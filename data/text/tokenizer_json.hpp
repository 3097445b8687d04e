// Writes a tokenizer as the files of Hugging Face's tokenizers and transformers, with the same ids as heed's.
#pragma once

#include <cstdint>
#include <string>

#include "data/text/tokenizer.hpp"

namespace heed::data {

// tokenizer.json. It gives the ids of Tokenizer::encode() for every text that is UTF-8, except that
//   char  leaves out characters that are not in the vocabulary, as Unknown::skip does;
//   bpe   may merge differently where two overlapping pairs of tokens make the same token: that program ranks pairs,
//         heed the tokens that they make;
//   file  finds added tokens in the text by their name, which encode() does not.
// The file is read back (data/text/tokenizer_file.hpp) only for kind file without an end token.
std::string tokenizer_json(const Tokenizer& tokenizer);

// tokenizer_config.json, by which transformers loads tokenizer.json. max_length: tokens of the longest sequence.
std::string tokenizer_config_json(const Tokenizer& tokenizer, int64_t max_length);

}  // namespace heed::data
