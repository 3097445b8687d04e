// Tokens are addresses: they are checked before a kernel follows them.
#pragma once

#include <cstdint>
#include <optional>

#include "autograd/core/tensor_ref.hpp"

namespace heed::cpu {

// Throws ValueError with the first wrong token and its position unless each is in [0, vocabulary) or `ignored`.
// what: "embedding: token"
void require_tokens(const char* what, const ConstTensorRef& tokens, int64_t vocabulary,
                    std::optional<int32_t> ignored = {});

}  // namespace heed::cpu
