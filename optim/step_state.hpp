// The numbers of one training step on a device that the host does not wait for, in device memory. The host writes the
// first fields before the step and reads the last ones after it; kernels compute them in between. One struct of 64-bit
// values, so that one copy moves it.
#pragma once

#include <cstdint>

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::optim {

struct StepState {
  // Written by the host.
  double learning_rate = 0;
  double clip_norm = 0;        // 0: no clipping
  int64_t optimizer_step = 0;  // 1 in the first optimizer step
  uint64_t update = 0;         // training step, for random numbers
  // Written by the host for one rank; summed over ranks on the device.
  double targets = 0;    // number of targets: divisor of the losses
  double must_stop = 0;  // number of ranks that request a stop after this step
  // Computed on the device.
  double loss = 0;            // sum over micro-batches, then over ranks
  double grad_norm = 0;       // of all gradients, before clipping
  double gradient_scale = 1;  // min(1, clip_norm / (grad_norm + 1e-6)), as optim::clip_factor()
  int64_t is_finite = 1;      // 0: loss or grad_norm is not finite, and the optimizer changes nothing
};

// numbers->loss += loss, an f32 scalar.
struct AddLoss {
  StepState* numbers = nullptr;
  ConstTensorRef loss = {};
};
// Computes grad_norm, gradient_scale and is_finite; sums: f64 (spans), the sum of squares of the gradients of each
// span.
struct FinalizeGradients {
  StepState* numbers = nullptr;
  ConstTensorRef sums = {};
};

}  // namespace heed::optim

namespace heed::cuda {
void add_loss(Context& context, const optim::AddLoss& p);
void finalize_gradients(Context& context, const optim::FinalizeGradients& p);
}  // namespace heed::cuda
