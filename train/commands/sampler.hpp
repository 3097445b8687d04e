// Samples one token from logits.
#pragma once

#include <cstdint>
#include <span>

#include "autograd/core/philox.hpp"

namespace heed::train {

struct SamplerOptions {
  double temperature = 1.0;  // 0: argmax, with the lowest id among equal logits and without a random number
  int64_t top_k = 0;         // keep only the k largest logits; 0: all
  double top_p = 1.0;        // nucleus sampling: keep only the largest probabilities that together reach p
};

// Throws ConfigError naming the option: temperature finite and >= 0, top_k >= 0, 0 < top_p <= 1.
void check(const SamplerOptions& options);

// Samples from softmax(logits / temperature), truncated by top_k, then by top_p, with the uniform number `index` of the
// random stream. Throws DivergedError if a logit is NaN or +Inf, or all are -Inf.
int32_t sample(std::span<const double> logits, const SamplerOptions& options, const RandomStream& random,
               uint64_t index);

}  // namespace heed::train
