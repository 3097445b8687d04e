// The learning rate of each update. With W = warmup_steps and N = total_steps, for update s = 0 … N - 1:
//   s < W    peak * (s + 1) / (W + 1): never 0, and peak at s = W
//   s >= W   with r = (s - W) / (N - W), the share of the decay that is done:
//     cosine     minimum + (peak - minimum) * (1 + cos(pi * r)) / 2
//     linear     minimum + (peak - minimum) * (1 - r)
//     constant   peak (minimum has no part in it)
// The decay ends at s = N, one behind the last update: a minimum of 0 wastes no update. From there on cosine and linear
// give minimum. The minimum is where the curve leads to, not a bound that cuts it off. W = 0 starts at peak; with W = N
// the rate only rises.
// Cosine: Loshchilov, Hutter 2016 (arXiv 1608.03983).
#pragma once

#include <cstdint>

namespace heed::optim {

struct ScheduleOptions {
  enum class Kind { cosine, linear, constant };
  Kind kind = Kind::cosine;
  double peak = 0, minimum = 0;
  int64_t warmup_steps = 0, total_steps = 1;
};

// Throws ValueError unless 0 < peak, 0 <= minimum <= peak, both finite, 0 <= warmup_steps <= total_steps,
// 1 <= total_steps and 0 <= step.
double learning_rate(const ScheduleOptions& options, int64_t step);

}  // namespace heed::optim
