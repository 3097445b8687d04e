#include "optim/schedule.hpp"

#include <cmath>
#include <numbers>

#include "autograd/core/check.hpp"

namespace heed::optim {
namespace {

void check(const ScheduleOptions& o, int64_t step) {
  require<ValueError>(std::isfinite(o.peak) && o.peak > 0, "learning_rate: peak is {}, it must be finite and above 0",
                      o.peak);
  require<ValueError>(o.minimum >= 0 && o.minimum <= o.peak,
                      "learning_rate: minimum is {}, it must be between 0 and peak ({})", o.minimum, o.peak);
  require<ValueError>(o.total_steps >= 1, "learning_rate: total_steps is {}, it must be at least 1", o.total_steps);
  require<ValueError>(o.warmup_steps >= 0 && o.warmup_steps <= o.total_steps,
                      "learning_rate: warmup_steps is {}, it must be between 0 and total_steps ({})", o.warmup_steps,
                      o.total_steps);
  require<ValueError>(step >= 0, "learning_rate: step is {}, it must not be negative", step);
  const int64_t most = o.total_steps - o.warmup_steps;
  require<ValueError>(o.kind != ScheduleOptions::Kind::wsd || (o.decay_steps >= 0 && o.decay_steps <= most),
                      "learning_rate: decay_steps is {}, it must be between 0 and total_steps - warmup_steps ({})",
                      o.decay_steps, most);
}

// The share of the way from minimum to peak after the completed fraction r of the decay.
double decay_at(ScheduleOptions::Decay decay, double r) {
  if (decay == ScheduleOptions::Decay::linear) return 1 - r;
  if (decay == ScheduleOptions::Decay::one_minus_sqrt) return 1 - std::sqrt(r);
  return (1 + std::cos(std::numbers::pi * r)) / 2;
}

ScheduleOptions::Decay decay_of(const ScheduleOptions& o) {
  using Kind = ScheduleOptions::Kind;
  using Decay = ScheduleOptions::Decay;
  if (o.kind == Kind::wsd) return o.decay;
  return o.kind == Kind::linear ? Decay::linear : Decay::cosine;
}

}  // namespace

double learning_rate(const ScheduleOptions& o, int64_t step) {
  check(o, step);
  if (step < o.warmup_steps) return o.peak * static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps + 1);
  if (o.kind == ScheduleOptions::Kind::constant) return o.peak;
  if (step >= o.total_steps) return o.minimum;
  const int64_t start = o.decay_start();
  if (step < start) return o.peak;
  const double r = static_cast<double>(step - start) / static_cast<double>(o.total_steps - start);
  return o.minimum + (o.peak - o.minimum) * decay_at(decay_of(o), r);
}

}  // namespace heed::optim
