// A text file as a source. Its tokens are kept in memory, 4 bytes each; a text of gigabytes is better made into a token
// file first (data/prepare.hpp) and read from there (data/token_source.hpp).
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
  LineSplitConfig parts;  // by position only the fractions count
  uint32_t seed = 1;
  int64_t seq_len = 0;  // of the windows that there must be
  // Takes the place of one made from the text; has an end token exactly if split is lines.
  std::shared_ptr<const Tokenizer> known_tokenizer = {};
};

// A PositionSource without end token, or a LineSource with one. All that can be wrong shows here, before the first
// step. Throws what TextFile, make_tokenizer() and the source throw, and MemoryError naming the file where its tokens
// (or what is made of them) do not fit into memory.
std::unique_ptr<Source> make_text_source(const TextConfig& config, const Progress& progress = {});

}  // namespace heed::data
