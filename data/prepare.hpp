// The work of `heed data prepare` and `heed data info`: a text made into a token file, and what such a file holds.
#pragma once

#include <string>

#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

struct PrepareConfig {
  std::string text_path;
  std::string output_path;
  TokenizerKind tokenizer = TokenizerKind::character;
  int64_t vocab_size = 0;  // bpe only
  double val_fraction = 0.1;
  double test_fraction = 0.0;
  std::string written_by;  // program and version
};

// Reads the text twice, once for the tokenizer (not for byte), once to encode it, in pieces: memory does not grow with
// the text. The splits are by position. The output appears whole or not at all.
// Throws DataError if the output is there already (it is never overwritten) or cannot be written, if the text is empty,
// and what TextFile, make_tokenizer() and encode_file() throw; ConfigError for the fractions.
void prepare_token_file(const PrepareConfig& config, const Progress& progress = {});

// What a token file holds, some lines of text. Every token is checked. Throws what TokenFile throws.
std::string describe_token_file(const std::string& path, const Progress& progress = {});

}  // namespace heed::data
