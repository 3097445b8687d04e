// A token file as a dataset: sequences by position, read from disk on demand.
#pragma once

#include <memory>

#include "data/source.hpp"

namespace heed::data {

struct TokenSourceConfig {
  std::string path;
  uint32_t seed = 1;
  int64_t seq_len = 0;  // sequence length; each used split must have one such sequence
  bool whole = false;   // use all tokens as one split, Split::train, instead of the splits of the file
};

// A PositionSource over the splits that are stored in the file. Throws the errors of TokenFile and PositionSource.
std::unique_ptr<Source> make_token_source(const TokenSourceConfig& config);

}  // namespace heed::data
