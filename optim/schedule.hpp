// The learning rate schedule. With W = warmup_steps and N = total_steps, for training step s = 0 … N - 1:
//   s < W    peak * (s + 1) / (W + 1): never 0, and peak at s = W
//   s >= W   with r = (s - W) / (N - W), the completed fraction of the decay:
//     cosine     minimum + (peak - minimum) * (1 + cos(pi * r)) / 2
//     linear     minimum + (peak - minimum) * (1 - r)
//     constant   peak (minimum is not used)
//     wsd        warm-up, stable, decay: peak until s = S = N - decay_steps, then minimum + (peak - minimum) * d(r)
//     with
//                r = (s - S) / (N - S) and d(r) = 1 - sqrt(r), 1 - r or (1 + cos(pi * r)) / 2
// The decay ends at s = N, one step after the last: a minimum of 0 wastes no step. From s = N on, all but constant
// return minimum. The minimum is the end point of the curve, not a lower bound that clips it. W = 0 starts at peak;
// with W = N the rate only rises. Before its decay wsd does not depend on N: a run can be extended from there.
// Cosine: Loshchilov, Hutter 2016 (arXiv 1608.03983). wsd: Hu et al. 2024 (arXiv 2404.06395); 1 - sqrt(r): Hägele et
// al. 2024 (arXiv 2405.18392).
#pragma once

#include <cstdint>

namespace heed::optim {

struct ScheduleOptions {
  enum class Kind { cosine, linear, constant, wsd };
  enum class Decay { one_minus_sqrt, linear, cosine };
  Kind kind = Kind::cosine;
  double peak = 0, minimum = 0;
  int64_t warmup_steps = 0, total_steps = 1;
  // wsd
  int64_t decay_steps = 0;
  Decay decay = Decay::one_minus_sqrt;

  // The first step of the decay, S for wsd and W for the others. The rate of this step is still the peak.
  int64_t decay_start() const { return kind == Kind::wsd ? total_steps - decay_steps : warmup_steps; }
};

// Throws ValueError unless 0 < peak, 0 <= minimum <= peak, both finite, 0 <= warmup_steps <= total_steps,
// 1 <= total_steps and 0 <= step; for wsd, 0 <= decay_steps <= total_steps - warmup_steps.
double learning_rate(const ScheduleOptions& options, int64_t step);

}  // namespace heed::optim
