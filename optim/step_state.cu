// Kernels of one thread that compute the numbers of a training step on the device, so that the host need not wait.
#include "optim/step_state.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

__global__ void add_loss_kernel(optim::StepState* numbers, const float* loss) { numbers->loss += *loss; }

__global__ void close_gradients_kernel(optim::StepState* numbers, const double* sums, int64_t spans) {
  double total = 0;
  for (int64_t span = 0; span < spans; ++span) total += sums[span];
  const double norm = sqrt(total), factor = numbers->clip_norm / (norm + 1e-6);
  numbers->grad_norm = norm;
  numbers->gradient_scale = numbers->clip_norm == 0 || factor > 1 ? 1 : factor;
  const auto is_finite = [](double value) { return value - value == 0; };
  numbers->is_finite = is_finite(norm) && is_finite(numbers->loss) ? 1 : 0;
}

}  // namespace

void add_loss(Context&, const optim::AddLoss& p) {
  launch(add_loss_kernel, {1, 1}, p.numbers, elements<float>(p.loss));
}
void finalize_gradients(Context&, const optim::FinalizeGradients& p) {
  launch(close_gradients_kernel, {1, 1}, p.numbers, elements<double>(p.sums), p.sums.shape.numel());
}

}  // namespace heed::cuda
