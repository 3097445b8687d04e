#include "data/token_checksum.hpp"

#include <algorithm>
#include <vector>

#include "data/io/checksum.hpp"

namespace heed::data {

uint64_t checksum_of_block(std::span<const int32_t> tokens) {
  return checksum(tokens.data(), static_cast<int64_t>(tokens.size_bytes()));
}

uint64_t checksum_of_blocks(std::span<const uint64_t> block_checksums) {
  return checksum(block_checksums.data(), static_cast<int64_t>(block_checksums.size_bytes()));
}

uint64_t checksum_of_tokens(int64_t num_tokens, const ReadTokens& read) {
  std::vector<uint64_t> block_checksums;
  std::vector<int32_t> block;
  for (int64_t first = 0; first < num_tokens; first += kTokensPerBlock) {
    block.resize(std::min(kTokensPerBlock, num_tokens - first));
    read(first, block);
    block_checksums.push_back(checksum_of_block(block));
  }
  return checksum_of_blocks(block_checksums);
}

}  // namespace heed::data
