#include "data/fingerprint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "data/checksum.hpp"

namespace heed::data {

std::string fingerprint(int64_t num_tokens, const ReadTokens& read, const SplitSizes& sizes) {
  constexpr int64_t kPieces = 64, kPieceTokens = 4096;
  const int64_t length = std::min(num_tokens, kPieceTokens);
  std::vector<int32_t> piece(static_cast<size_t>(length));
  Checksum sum;
  int64_t behind = -1;  // where the piece before began
  for (int64_t i = 0; i < kPieces && length > 0; ++i) {
    const int64_t first =
        (num_tokens - length) / (kPieces - 1) * i + (num_tokens - length) % (kPieces - 1) * i / (kPieces - 1);
    if (first == behind) continue;
    behind = first;
    read(first, piece);
    sum.update(piece.data(), length * static_cast<int64_t>(sizeof(int32_t)));
  }
  return fmt::format("{} tokens, split {}/{}/{}, checksum {:016x}", num_tokens, sizes.train, sizes.validation,
                     sizes.test, sum.value());
}

}  // namespace heed::data
