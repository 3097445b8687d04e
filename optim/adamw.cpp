#include "optim/adamw.hpp"

#include "autograd/core/device.hpp"

namespace heed::optim {
namespace {

void check(const AdamWOptions& options) {
  const auto require_beta = [](const char* argument, double beta) {
    require<ValueError>(beta >= 0 && beta < 1, "{} is {}, it must be at least 0 and below 1", argument, beta);
  };
  require_beta("AdamW: beta1", options.beta1);
  require_beta("AdamW: beta2", options.beta2);
  require_not_negative("AdamW: eps", options.eps);
  require<ValueError>(options.eps > 0, "AdamW: eps is 0, it must be above 0");
  require_not_negative("weight_decay", options.weight_decay);
}

}  // namespace

AdamW::AdamW(std::vector<ParameterSpan> spans, const AdamWOptions& options)
    : Optimizer(std::move(spans)), options_(options) {
  check(options);
  for (size_t span = 0; span < this->spans().size(); ++span) {
    m_.push_back(add_state("m", span));
    v_.push_back(add_state("v", span));
  }
}

void AdamW::update(size_t span, const StepScalars& scalars) {
  const ParameterSpan& p = spans()[span];
  HEED_DISPATCH(p.weights.device(), adamw_step,
                {.weights = p.weights.ref(),
                 .m = m_[span].ref(),
                 .v = v_[span].ref(),
                 .gradients = p.gradients,
                 .scalars = scalars,
                 .beta1 = options_.beta1,
                 .beta2 = options_.beta2,
                 .eps = options_.eps,
                 .weight_decay = p.decay ? options_.weight_decay : 0.0});
}

}  // namespace heed::optim
