// A text as a dataset: read from a text file, whose tokens are all kept in memory, 4 bytes each, or from a token file
// (data/prepare.hpp), which is read on demand: the better choice for gigabytes of text.
#pragma once

#include <memory>

#include "data/dataset.hpp"
#include "data/splits.hpp"
#include "data/text/text_file.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

enum class TextSplit { position, lines };

struct TextConfig {
  std::string path;
  TokenizerKind tokenizer = TokenizerKind::character;
  int64_t vocab_size = 0;           // bpe only
  std::string tokenizer_file = {};  // file only
  TextSplit split = TextSplit::position;
  LineSplitConfig parts;                    // split by position uses only the fractions
  uint32_t seed = 1;                        // of the order of the training sequences
  std::optional<uint32_t> split_seed = {};  // of the split by lines; by default `seed`
  int64_t seq_len = 0;                      // sequence length; by position, each used split must have one such sequence
  // Used instead of a tokenizer built from the text; must have an end token if and only if split is lines.
  std::shared_ptr<const Tokenizer> known_tokenizer = {};
};

// Reads a text file. Returns a PositionDataset (without end token) or a LineDataset (with end token). All errors are
// reported here, before the first training step. Throws the errors of TextFile, make_tokenizer() and the dataset;
// MemoryError with the file if its tokens, or the data built from them, do not fit into memory.
std::unique_ptr<Dataset> make_text_dataset(const TextConfig& config, const Progress& progress = {});

struct TokenDatasetConfig {
  std::string path;
  uint32_t seed = 1;
  int64_t seq_len = 0;  // sequence length; each used split must have one such sequence
  bool whole = false;   // use all tokens as one split, Split::train, instead of the splits of the file
};

// Opens a token file. Returns a PositionDataset over the splits that are stored in it. Throws the errors of TokenFile
// and PositionDataset.
std::unique_ptr<Dataset> make_token_dataset(const TokenDatasetConfig& config);

}  // namespace heed::data
