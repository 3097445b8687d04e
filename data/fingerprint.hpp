// A short text that tells whether two runs have the same data.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/splits.hpp"

namespace heed::data {

using ReadTokens = std::function<void(int64_t first, std::span<int32_t> tokens)>;

// "1115394 tokens, split 1003854/111540/0, checksum 1a2b3c4d5e6f7081". The checksum covers up to 64 evenly spread
// pieces of 4096 tokens, so that a file of gigabytes need not be read: another text, a text that has grown or another
// split shows, a change in between the pieces of a long text does not.
std::string fingerprint(int64_t num_tokens, const ReadTokens& read, const SplitSizes& sizes);

}  // namespace heed::data
