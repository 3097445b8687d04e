// Kernels of one thread that compute the scalars of a training step on the device, so that the host need not wait.
#include "optim/step_state.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

__global__ void add_loss_kernel(optim::StepState* state, const float* loss) { state->loss += *loss; }

__global__ void finalize_gradients_kernel(optim::StepState* state, const double* sums, int64_t spans) {
  double total = 0;
  for (int64_t span = 0; span < spans; ++span) total += sums[span];
  state->finalize_gradients(total);
}

}  // namespace

void add_loss(Context&, const optim::AddLoss& p) { launch(add_loss_kernel, {1, 1}, p.state, elements<float>(p.loss)); }
void finalize_gradients(Context&, const optim::FinalizeGradients& p) {
  launch(finalize_gradients_kernel, {1, 1}, p.state, elements<double>(p.sums), p.sums.shape.numel());
}

}  // namespace heed::cuda
