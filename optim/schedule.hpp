// The learning rate schedule. With W = warmup_steps and N = total_steps, for training step s = 0 … N - 1:
//   s < W    peak * (s + 1) / (W + 1): never 0, and peak at s = W
//   s >= W   with r = (s - W) / (N - W), the completed fraction of the decay:
//     cosine     minimum + (peak - minimum) * (1 + cos(pi * r)) / 2
//     linear     minimum + (peak - minimum) * (1 - r)
//     constant   peak (minimum is not used)
// The decay ends at s = N, one step after the last: a minimum of 0 wastes no step. From s = N on, cosine and linear
// return minimum. The minimum is the end point of the curve, not a lower bound that clips it. W = 0 starts at peak;
// with W = N the rate only rises.
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
