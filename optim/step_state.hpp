// The scalars of one training step, in the memory of its device, so that on CUDA the host does not wait: the host
// writes the first fields before the step, kernels compute the last ones, and the host reads the whole struct after it.
// A struct of 64-bit values, which one copy moves.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "autograd/core/context.hpp"
#include "autograd/core/device_scalar.hpp"
#include "autograd/tensor.hpp"

namespace heed::optim {

// AdamW's bias correction in step t: 1 - beta1^t, and 1 / sqrt(1 - beta2^t). NaN until it is computed: no value is
// right for every step.
struct BiasCorrection {
  double first = std::numeric_limits<double>::quiet_NaN(), inverse_root_second = first;
};

struct StepState {
  // Written by the host.
  double learning_rate = 0;
  double clip_norm = 0;                 // 0: no clipping
  int64_t optimizer_step = 0;           // 1 in the first optimizer step
  BiasCorrection bias_correction = {};  // Optimizer::bias_correction(optimizer_step)
  uint64_t step = 0;                    // training step, 0 in the first: for random numbers
  // Written by the host of each rank, then all-reduced.
  double targets = 0;    // number of targets: divisor of the losses
  double must_stop = 0;  // number of ranks that request a stop after this step
  double failed = 0;     // number of ranks without a batch
  // Computed by kernels.
  double loss = 0;            // sum over micro-batches, then over ranks
  double grad_norm = 0;       // of all gradients, before clipping
  double gradient_scale = 1;  // min(1, clip_norm / (grad_norm + 1e-6)), as optim::clip_factor()
  // 0: the optimizer changes nothing, because loss or grad_norm is NaN or Inf, no rank has a target, or one failed.
  int64_t is_valid = 1;

  // From the sum of squares of all gradients: grad_norm, gradient_scale, is_valid.
  HEED_HOST_DEVICE void compute_clipping(double sum_of_squares);
};

// state->loss += loss, a scalar in f32 or, on the CPU, f64. `state` is in the memory of the loss's device.
void add_loss(StepState* state, const Tensor& loss);
// Computes grad_norm, gradient_scale and is_valid. sums: f64 (spans), the sum of squares of the gradients of each span,
// as from squares_of_gradients(), on the device of `state`.
void compute_clipping(StepState* state, const Tensor& sums);

struct AddLoss {
  StepState* state = nullptr;
  ConstTensorRef loss = {};
};
struct ComputeClipping {
  StepState* state = nullptr;
  ConstTensorRef sums = {};
};

HEED_HOST_DEVICE inline void StepState::compute_clipping(double sum_of_squares) {
  grad_norm = std::sqrt(sum_of_squares);
  const double factor = clip_norm / (grad_norm + 1e-6);
  gradient_scale = clip_norm == 0 || factor > 1 ? 1 : factor;
  const bool is_finite = grad_norm - grad_norm == 0 && loss - loss == 0;
  is_valid = is_finite && targets > 0 && failed == 0 ? 1 : 0;
}

}  // namespace heed::optim

namespace heed::cpu {
void add_loss(Context& context, const optim::AddLoss& p);
void compute_clipping(Context& context, const optim::ComputeClipping& p);
}  // namespace heed::cpu
namespace heed::cuda {
void add_loss(Context& context, const optim::AddLoss& p);
void compute_clipping(Context& context, const optim::ComputeClipping& p);
}  // namespace heed::cuda
