// Tokens are addresses: they are checked before a kernel follows them.
#pragma once

#include <cstdint>
#include <limits>

#include "autograd/core/shape.hpp"

namespace heed {

struct TokenRange {
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::min();

  const char* what = "";  // of static lifetime: "embedding: token"
  Shape shape = {};       // of the tokens
  int64_t vocabulary = 0;
  int64_t ignored = kNothing;  // one value outside the vocabulary that is allowed, or kNothing
};

// Throws ValueError for `value` at element `flat` of the tokens: what it is, where, and what it must be.
[[noreturn]] void throw_wrong_token(const TokenRange& range, int32_t value, int64_t flat);

}  // namespace heed
