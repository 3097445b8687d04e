// A token file as a source: windows by position, read from the disk as they are asked for.
#pragma once

#include <memory>

#include "data/source.hpp"

namespace heed::data {

struct TokenSourceConfig {
  std::string path;
  uint32_t seed = 1;
  int64_t seq_len = 0;  // of the windows that there must be
  bool whole = false;   // all tokens are one split, Split::train, instead of those that the file was made with
};

// A PositionSource over the splits that the file was made with. Throws what TokenFile and the source throw.
std::unique_ptr<Source> make_token_source(const TokenSourceConfig& config);

}  // namespace heed::data
