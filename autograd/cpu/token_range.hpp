// Range check of token ids on the CPU.
#pragma once

#include "autograd/core/tensor_ref.hpp"
#include "autograd/core/token_range.hpp"

namespace heed::cpu {

// Throws ValueError with the first invalid token and its position, unless each token is in [0, range.vocabulary) or
// equal to range.ignored.
void require_tokens(const ConstTensorRef& tokens, const TokenRange& range);

}  // namespace heed::cpu
