#include "optim/sgd.hpp"

#include "autograd/core/device.hpp"

namespace heed::optim {

Sgd::Sgd(std::vector<ParameterSpan> spans, const SgdOptions& options) : Optimizer(std::move(spans)), options_(options) {
  require<ValueError>(options.momentum >= 0 && options.momentum < 1,
                      "Sgd: momentum is {}, it must be at least 0 and below 1", options.momentum);
  require_not_negative("weight_decay", options.weight_decay);
  if (options.momentum == 0) return;
  for (size_t span = 0; span < this->spans().size(); ++span) v_.push_back(add_state("v", span));
}

void Sgd::update(size_t span, const StepScalars& scalars) {
  const ParameterSpan& p = spans()[span];
  HEED_DISPATCH(p.weights.device(), sgd_step,
                {.weights = p.weights.ref(),
                 .v = v_.empty() ? TensorRef() : v_[span].ref(),
                 .copies = p.copies.ref(),
                 .gradients = p.gradients,
                 .scalars = scalars,
                 .momentum = options_.momentum,
                 .weight_decay = p.decay_of(options_.weight_decay)});
}

}  // namespace heed::optim
