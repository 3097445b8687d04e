#include "optim/step_state.hpp"

#include "autograd/core/context.hpp"

namespace heed::optim {

void add_loss(StepState* state, const Tensor& loss) {
  HEED_DISPATCH(loss.device(), add_loss, {.state = state, .loss = loss});
}

void compute_clipping(StepState* state, const Tensor& sums) {
  HEED_DISPATCH(sums.device(), compute_clipping, {.state = state, .sums = sums});
}

}  // namespace heed::optim
