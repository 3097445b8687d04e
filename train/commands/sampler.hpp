// Sampling of the next token from its logits.
#pragma once

#include <cstdint>
#include <span>

#include "autograd/core/philox.hpp"

namespace heed::train {

// Applied in this order; the defaults change nothing. p(t) = softmax(logits / temperature).
struct SamplerOptions {
  // Of a token that occurs in the prompt or was generated: a positive logit is divided by the penalty, a negative one
  // multiplied (Keskar et al. 2019, "CTRL", in the form of transformers).
  double repetition_penalty = 1.0;
  // Of a token that was generated n > 0 times: the logit is lowered by n * frequency_penalty + presence_penalty, as in
  // the API of OpenAI.
  double frequency_penalty = 0.0;
  double presence_penalty = 0.0;
  double temperature = 1.0;  // 0: argmax, with the lowest id among equal logits and without a random number
  int64_t top_k = 0;         // keep only the k largest logits; 0: all
  double top_p = 1.0;        // nucleus sampling: keep only the largest probabilities that together reach p
  double min_p = 0.0;        // keep only probabilities of at least min_p times the largest one (Nguyen et al. 2024)
};

// Throws ConfigError naming the option: temperature finite and >= 0, top_k >= 0, 0 < top_p <= 1, 0 <= min_p <= 1,
// repetition_penalty finite and > 0, the other penalties finite.
void check(const SamplerOptions& options);

// Applies the penalties to the logits. tokens: the prompt and what was generated, which are the last num_generated.
void penalize(std::span<double> logits, const SamplerOptions& options, std::span<const int32_t> tokens,
              int64_t num_generated);

// Samples from p, truncated by top_k, top_p and min_p, with the uniform number `index` of the random stream. Throws
// DivergedError if a logit is NaN or +Inf, or all are -Inf.
int32_t sample(std::span<const double> logits, const SamplerOptions& options, const RandomStream& random,
               uint64_t index);

}  // namespace heed::train
