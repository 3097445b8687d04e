// Random probabilities: gamma variates and rows of a hierarchical Dirichlet distribution.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "autograd/core/philox.hpp"

namespace heed::data {

// ln of a Gamma(shape, 1) variate, shape >= 0; -inf for shape 0. Rejection sampling uses an unknown number of random
// numbers, so each variate needs its own stream (its own `step`).
//   shape >= 1: d = shape - 1/3, v = (1 + z / sqrt(9 d))^3, accept if ln u < z^2 / 2 + d (1 - v + ln v); ln(d v)
//   shape <  1: ln G(shape) = ln G(shape + 1) + ln(u) / shape, which is finite even if G underflows to 0 in double
// Marsaglia and Tsang 2000, "A simple method for generating gamma variables" (ACM TOMS 26, 3).
double log_gamma_variate(const RandomStream& stream, double shape);

inline constexpr double kMinAlpha = 1e-6, kMaxAlpha = 1e9;

// num_rows rows of `width` probabilities, each row an independent draw from Dir(alpha · parent), where row r has the
// parent row r mod (number of parents); alpha is the total concentration. Each element i has a separate stream:
// (seed, RandomPlace::rows, layer, step i). Probabilities below 1e-308 become exactly 0.
std::vector<double> dirichlet_rows(std::span<const double> parents, int64_t width, int64_t num_rows, double alpha,
                                   uint32_t seed, uint32_t layer);

// The rows p(token | context) for contexts of alpha.size() - 1 tokens: (V^(alpha.size() - 1), V), each row sums to 1.
//   level 0: one row, Dir(alpha[0] · uniform)
//   level k: V^k rows; row c is Dir(alpha[k] · row (c mod V^(k-1)) of level k - 1)
// alpha[k] is the total concentration of level k: if a token has probability p in the shorter context, its probability
// in the longer one has mean p and variance p (1 - p) / (alpha[k] + 1). Digit j of c (base V, lowest is 0) is token j
// of the context. Each alpha must be in [kMinAlpha, kMaxAlpha].
std::vector<double> hierarchical_dirichlet_rows(int64_t vocab_size, std::span<const double> alpha, uint32_t seed);

}  // namespace heed::data
