#include "optim/sgd.hpp"

#include "autograd/core/device.hpp"

namespace heed::optim {

Sgd::Sgd(std::vector<ParameterSpan> spans, const SgdOptions& options) : Optimizer(std::move(spans)), options_(options) {
  require_not_negative("weight_decay", options.weight_decay);
}

void Sgd::update(size_t span, const StepScalars& scalars) {
  const ParameterSpan& p = spans()[span];
  HEED_DISPATCH(p.weights.device(), sgd_step,
                {.weights = p.weights.ref(),
                 .gradients = p.gradients,
                 .scalars = scalars,
                 .weight_decay = p.decay ? options_.weight_decay : 0.0});
}

}  // namespace heed::optim
