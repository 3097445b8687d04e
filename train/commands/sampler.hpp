// One token out of logits.
#pragma once

#include <cstdint>
#include <span>

#include "autograd/core/philox.hpp"

namespace heed::train {

struct SamplerOptions {
  double temperature = 1.0;  // 0: the largest logit, the lowest id among equals, and no random number is drawn
  int64_t top_k = 0;         // only the k largest logits; 0: all
  double top_p = 1.0;        // only the largest probabilities that together reach p
};

// Throws ConfigError naming the option: temperature finite and >= 0, top_k >= 0, 0 < top_p <= 1.
void check(const SamplerOptions& options);

// Draws from softmax(logits / temperature), cut by top_k, then top_p, with the uniform number `index` of the stream.
// Throws DivergedError where a logit is NaN or +Inf, or all are -Inf.
int32_t sample(std::span<const double> logits, const SamplerOptions& options, const RandomStream& random,
               uint64_t index);

}  // namespace heed::train
