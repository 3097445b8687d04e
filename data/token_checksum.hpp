// Checksum of all tokens of a text, the same from memory and from a token file: XXH64 over the XXH64 values (u64) of
// all groups of 65536 tokens (int32; the last group may be shorter). A token file stores these values, so its checksum
// needs no reading of the tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace heed::data {

inline constexpr int64_t kTokensPerBlock = 65536;

// Reads tokens.size() tokens from position `first` on.
using ReadTokens = std::function<void(int64_t first, std::span<int32_t> tokens)>;

uint64_t checksum_of_block(std::span<const int32_t> tokens);
uint64_t checksum_of_blocks(std::span<const uint64_t> block_checksums);
uint64_t checksum_of_tokens(int64_t num_tokens, const ReadTokens& read);

}  // namespace heed::data
