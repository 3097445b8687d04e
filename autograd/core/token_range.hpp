// The range of valid tokens. Tokens are indices into memory, so they are checked before a kernel uses them.
#pragma once

#include <cstdint>
#include <limits>

#include "autograd/core/tensor_ref.hpp"

namespace heed {

struct TokenRange {
  static constexpr int64_t kNothing = std::numeric_limits<int64_t>::min();

  const char* what = "";  // name in messages, of static lifetime: "embedding: token"
  Shape shape = {};       // of the tokens
  int64_t vocabulary = 0;
  int64_t ignored = kNothing;  // one allowed value outside the vocabulary, or kNothing
};

// Throws ValueError for `value` at flat index `flat` of the tokens: its name, position and allowed range.
[[noreturn]] void throw_wrong_token(const TokenRange& range, int32_t value, int64_t flat);

namespace cpu {
// Throws ValueError with the first invalid token and its position, unless each token is in [0, range.vocabulary) or
// equal to range.ignored. On CUDA the kernels check: cuda/token_check.cuh.
void require_tokens(const ConstTensorRef& tokens, const TokenRange& range);
}  // namespace cpu

}  // namespace heed
