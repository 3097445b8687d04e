// Sorts tokens on the device, so that all positions of a token are adjacent, in ascending order.
#pragma once

#include <cstdint>

#include "autograd/core/context.hpp"

namespace heed::cuda {

// A token and its row of dy (or of partial sums). kNoRow: the entry has a token but no row.
struct TokenEntry {
  static constexpr uint32_t kNoRow = 0xFFFFFFFF;
  uint32_t row, token;
};

// Stable sort of (token i, row i), i = 0 … count - 1, by token. A token outside [0, vocabulary) becomes token
// `vocabulary` without a row, at the end. Throws ShapeError for 2^32 - 1 tokens or more.
class SortedTokens {
 public:
  SortedTokens(const Context& context, const int32_t* tokens, int64_t count, int64_t vocabulary);
  const TokenEntry* entries() const { return sorted_; }

 private:
  Scratch<TokenEntry> a_, b_;
  const TokenEntry* sorted_ = nullptr;
};

}  // namespace heed::cuda
