// Kernels of one thread that compute the scalars of a training step on the device, so that the host need not wait.
#include "optim/step_state.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

__global__ void add_loss_kernel(optim::StepState* state, const float* loss) { state->loss += *loss; }

__global__ void compute_clipping_kernel(optim::StepState* state, const double* sums, int64_t spans) {
  double total = 0;
  for (int64_t span = 0; span < spans; ++span) total += sums[span];
  state->compute_clipping(total);
}

}  // namespace

void add_loss(Context&, const optim::AddLoss& p) { launch(add_loss_kernel, {1, 1}, p.state, elements<float>(p.loss)); }
void compute_clipping(Context&, const optim::ComputeClipping& p) {
  launch(compute_clipping_kernel, {1, 1}, p.state, elements<double>(p.sums), p.sums.shape.numel());
}

}  // namespace heed::cuda
