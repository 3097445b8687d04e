// A text file as a dataset. All tokens are kept in memory, 4 bytes each. For gigabytes of text, a token file
// (data/prepare.hpp) that is read on demand (data/token_source.hpp) is the better choice.
#pragma once

#include <memory>

#include "data/source.hpp"
#include "data/splits.hpp"
#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

enum class TextSplit { position, lines };

struct TextConfig {
  std::string path;
  TokenizerKind tokenizer = TokenizerKind::character;
  int64_t vocab_size = 0;  // bpe only
  TextSplit split = TextSplit::position;
  LineSplitConfig parts;  // split by position uses only the fractions
  uint32_t seed = 1;
  int64_t seq_len = 0;  // sequence length; by position, each used split must have one such sequence
  // Used instead of a tokenizer built from the text; must have an end token if and only if split is lines.
  std::shared_ptr<const Tokenizer> known_tokenizer = {};
};

// Returns a PositionSource (without end token) or a LineSource (with end token). All errors are reported here, before
// the first training step. Throws the errors of TextFile, make_tokenizer() and the dataset; MemoryError with the file
// if its tokens, or the data built from them, do not fit into memory.
std::unique_ptr<Source> make_text_source(const TextConfig& config, const Progress& progress = {});

}  // namespace heed::data
