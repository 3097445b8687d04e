// Implementation of `heed data prepare` and `heed data info`: converts a text to a token file, and describes one.
#pragma once

#include <string>

#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

struct PrepareConfig {
  std::string text_path;
  std::string output_path;
  TokenizerKind tokenizer = TokenizerKind::character;
  int64_t vocab_size = 0;           // bpe only
  std::string tokenizer_file = {};  // file only
  double val_fraction = 0.1;
  double test_fraction = 0.0;
  std::string written_by;  // program and version
};

// Reads the text twice, first to build the tokenizer (not for byte), then to encode it, in chunks: memory does not grow
// with the text. The splits are by position. The output file is created atomically: complete or not at all.
// Throws DataError if the output exists (it is never overwritten) or cannot be written, or if the text is empty; the
// errors of TextFile, make_tokenizer() and encode_file(); ConfigError for invalid fractions.
void prepare_token_file(const PrepareConfig& config, const Progress& progress = {});

// Describes the contents of a token file in a few lines of text. Verifies every token. Throws the errors of TokenFile.
std::string describe_token_file(const std::string& path, const Progress& progress = {});

}  // namespace heed::data
