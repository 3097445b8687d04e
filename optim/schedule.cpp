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
}

}  // namespace

double learning_rate(const ScheduleOptions& o, int64_t step) {
  check(o, step);
  if (step < o.warmup_steps) return o.peak * static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps + 1);
  if (o.kind == ScheduleOptions::Kind::constant) return o.peak;
  if (step >= o.total_steps) return o.minimum;
  const double r = static_cast<double>(step - o.warmup_steps) / static_cast<double>(o.total_steps - o.warmup_steps);
  const double share = o.kind == ScheduleOptions::Kind::linear ? 1 - r : (1 + std::cos(std::numbers::pi * r)) / 2;
  return o.minimum + (o.peak - o.minimum) * share;
}

}  // namespace heed::optim
