#include "data/fingerprint.hpp"

#include <fmt/format.h>

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

Fingerprint::Fingerprint(const Parts& parts, const Tokenizer& tokenizer)
    : num_tokens_(parts.num_tokens),
      sizes_(fmt::format("{} tokens, split {}/{}/{}", parts.num_tokens, parts.sizes.train, parts.sizes.validation,
                         parts.sizes.test)),
      text_(fmt::format("{}{}{}, XXH64 of all tokens {:016x}, of the tokenizer {:016x}", sizes_,
                        parts.split_unit.empty() ? "" : " ", parts.split_unit, parts.token_checksum,
                        checksum(tokenizer.serialize()))) {}

bool Fingerprint::matches(const std::string& stored, const ReadTokens& read) const {
  const bool is_sampled = stored.find(", checksum ") != std::string::npos;
  return stored == (is_sampled ? sampled_text(read) : text_);
}

std::string Fingerprint::sampled_text(const ReadTokens& read) const {
  constexpr int64_t kPieces = 64, kPieceTokens = 4096;
  const int64_t length = std::min(num_tokens_, kPieceTokens), last = num_tokens_ - length;
  std::vector<int32_t> piece(static_cast<size_t>(length));
  Checksum sum;
  int64_t previous = -1;
  for (int64_t i = 0; i < kPieces && length > 0; ++i) {
    const int64_t first = last / (kPieces - 1) * i + last % (kPieces - 1) * i / (kPieces - 1);
    if (first == previous) continue;
    previous = first;
    read(first, piece);
    sum.update(piece.data(), length * static_cast<int64_t>(sizeof(int32_t)));
  }
  return fmt::format("{}, checksum {:016x}", sizes_, sum.value());
}

}  // namespace heed::data
