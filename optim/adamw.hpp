// AdamW: Adam with decoupled weight decay, for optimizer step t = 1, 2, …
//   w -= lr * weight_decay * w                                  only for spans with decay, before the Adam update
//   m = beta1 * m + (1 - beta1) * g                             g = gradient * gradient_scale
//   v = beta2 * v + (1 - beta2) * g^2
//   w -= lr * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
// All in the dtype of the weights; the factors that are the same for all elements are computed in f64 first. In f32 a
// |g| above 1.8e19 overflows v to Inf: the Adam update of its weight is 0 in that step, and v and the weight are NaN
// from the next step on.
// Loshchilov, Hutter 2017, "Decoupled weight decay regularization" (arXiv 1711.05101); Kingma, Ba 2014 (arXiv
// 1412.6980).
#pragma once

#include "autograd/core/context.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999;  // in [0, 1)
  double eps = 1e-8;                  // above 0
  double weight_decay = 0.1;
};

// Throws ValueError for options out of their range.
void check(const AdamWOptions& options);
BiasCorrection bias_correction(const AdamWOptions& options, int64_t step);
// One step of a span with its m and v.
void update_adamw(const ParameterSpan& span, const Tensor& m, const Tensor& v, const AdamWOptions& options,
                  const StepScalars& scalars);

class AdamW final : public Optimizer {
 public:
  // Throws ValueError for options out of their range, and as Optimizer does. State: m and v of each span.
  AdamW(std::vector<ParameterSpan> spans, const AdamWOptions& options);

  BiasCorrection bias_correction(int64_t step) const override { return optim::bias_correction(options_, step); }

 private:
  void update(size_t span, const StepScalars& scalars) override;

  AdamWOptions options_;
  std::vector<Tensor> m_, v_;  // one per span
};

struct AdamWStep {
  TensorRef weights = {}, m = {}, v = {};
  TensorRef copies = {};  // no data without copies
  ConstTensorRef gradients = {};
  StepScalars scalars = {};
  double beta1 = 0, beta2 = 0, eps = 0;
  double weight_decay = 0;  // 0 for a span without decay
};

}  // namespace heed::optim

namespace heed::cpu {
void adamw_step(Context& context, const optim::AdamWStep& p);
}  // namespace heed::cpu
namespace heed::cuda {
void adamw_step(Context& context, const optim::AdamWStep& p);
}  // namespace heed::cuda
