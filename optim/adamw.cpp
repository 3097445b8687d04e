#include "optim/adamw.hpp"

#include <cmath>

#include "autograd/core/device.hpp"

namespace heed::optim {

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

BiasCorrection bias_correction(const AdamWOptions& options, int64_t step) {
  const auto t = static_cast<double>(step);
  return {.first = 1 - std::pow(options.beta1, t),
          .inverse_root_second = 1 / std::sqrt(1 - std::pow(options.beta2, t))};
}

void update_adamw(const ParameterSpan& span, const Tensor& m, const Tensor& v, const AdamWOptions& options,
                  const StepScalars& scalars) {
  HEED_DISPATCH(span.weights.device(), adamw_step,
                {.weights = span.weights.ref(),
                 .m = m.ref(),
                 .v = v.ref(),
                 .copies = span.copies.ref(),
                 .gradients = span.gradients,
                 .scalars = scalars,
                 .beta1 = options.beta1,
                 .beta2 = options.beta2,
                 .eps = options.eps,
                 .weight_decay = span.decay_of(options.weight_decay)});
}

AdamW::AdamW(std::vector<ParameterSpan> spans, const AdamWOptions& options)
    : Optimizer(std::move(spans)), options_(options) {
  check(options);
  for (size_t span = 0; span < this->spans().size(); ++span) {
    m_.push_back(add_state("m", span));
    v_.push_back(add_state("v", span));
  }
}

void AdamW::update(size_t span, const StepScalars& scalars) {
  update_adamw(spans()[span], m_[span], v_[span], options_, scalars);
}

}  // namespace heed::optim
