// The check of tokens on the CPU.
#pragma once

#include "autograd/core/tensor_ref.hpp"
#include "autograd/core/token_range.hpp"

namespace heed::cpu {

// Throws ValueError with the first wrong token and its position unless each is in the range.
void require_tokens(const ConstTensorRef& tokens, const TokenRange& range);

}  // namespace heed::cpu
