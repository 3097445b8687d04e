// ALiBi (Press, Smith, Lewis 2022, arXiv 2108.12409): the score of query position i and key position j of head h gets
// the bias slope(h) * (j - i), which is at most 0 under a causal mask.
#pragma once

#include <cmath>
#include <cstdint>

#include "autograd/core/device_scalar.hpp"

namespace heed {

// The slope of head `head` of `heads`: 2^(-8 (head + 1) / heads) if `heads` is a power of two. Else the slopes of the
// largest power of two n below it, then every second one of those of 2n, as in BLOOM and MPT.
template <class T>
HEED_HOST_DEVICE T alibi_slope(int64_t head, int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const int64_t eighths = head < power ? 2 * (head + 1) : 2 * (head - power) + 1;  // in units of 4 / power
  return std::exp2(T(-4) * static_cast<T>(eighths) / static_cast<T>(power));
}

}  // namespace heed
