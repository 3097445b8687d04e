// Exponential moving average (EMA) of the weights, updated after each optimizer step:
//   average = d_t * average + (1 - d_t) * w        d_t = min(decay, (1 + t) / (10 + t)), t = 1 in the first step
// The smaller d_t of the first steps lets the average forget the initial weights; the same warm-up as in
// tf.train.ExponentialMovingAverage with num_updates. Polyak and Juditsky 1992, "Acceleration of stochastic
// approximation by averaging".
#pragma once

#include "autograd/core/context.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

// 1 - d_t. Call this where the kernel runs.
HEED_HOST_DEVICE inline double weight_average_rate(double decay, int64_t optimizer_step) {
  const double at_start = 9 / (10 + static_cast<double>(optimizer_step));
  return at_start > 1 - decay ? at_start : 1 - decay;
}

// average, weights: (N), one dtype, f32 or f64, which is also the dtype of the computation. Computed as
// average += (1 - d_t) * (w - average), which leaves an average that equals w as it is. Changes nothing if
// scalars.is_valid is 0; of the scalars it reads only that and optimizer_step.
struct WeightAverageStep {
  TensorRef average = {};
  ConstTensorRef weights = {};
  StepScalars scalars = {};
  double decay = 0;
};

}  // namespace heed::optim

namespace heed::cpu {
void weight_average_step(Context& context, const optim::WeightAverageStep& p);
}  // namespace heed::cpu
namespace heed::cuda {
void weight_average_step(Context& context, const optim::WeightAverageStep& p);
}  // namespace heed::cuda
