// Tokens sorted on the device: so that all positions of a token lie together, in their order.
#pragma once

#include <cstdint>

#include "autograd/core/context.hpp"

namespace heed::cuda {

// A token and the row that belongs to it. kNoRow: none, the entry stands for a token only.
struct TokenEntry {
  static constexpr uint32_t kNoRow = 0xFFFFFFFF;
  uint32_t row, token;
};

// Sorts (token i, row i) for i = 0 … count - 1 by token; equal tokens keep their order. One that is not in [0,
// vocabulary) comes last, as token `vocabulary` without a row. Throws ShapeError for 2^32 - 1 tokens and more.
class SortedTokens {
 public:
  SortedTokens(const Context& context, const int32_t* tokens, int64_t count, int64_t vocabulary);
  const TokenEntry* entries() const { return sorted_; }

 private:
  Scratch<TokenEntry> a_, b_;
  const TokenEntry* sorted_ = nullptr;
};

}  // namespace heed::cuda
