// Attention forward for one query per sequence, as in generation with a KV cache.
#pragma once

#include "autograd/ops/attention/attention.hpp"

namespace heed::cpu {

// Whether attention_decode() computes this problem: one query, no dropout.
bool suits_decode(const AttentionProblem& p);
// As attention_forward(), with other rounding.
void attention_decode(Context& context, const AttentionForward& p);

}  // namespace heed::cpu
