// Gradient descent with decoupled weight decay, without momentum:
//   w -= lr * weight_decay * w      only for spans with decay, before the gradient step
//   w -= lr * gradient_scale * gradient
// In the dtype of the weights; the two factors are computed in f64 first. The only state is the number of steps.
#pragma once

#include "autograd/core/context.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

struct SgdOptions {
  double weight_decay = 0.0;
};

class Sgd final : public Optimizer {
 public:
  // Throws ValueError unless weight_decay is finite and not negative, and as Optimizer does.
  Sgd(std::vector<ParameterSpan> spans, const SgdOptions& options);

 private:
  void update(size_t span, const StepScalars& scalars) override;

  SgdOptions options_;
};

struct SgdStep {
  TensorRef weights = {};
  ConstTensorRef gradients = {};
  StepScalars scalars = {};
  double weight_decay = 0;  // 0 for a span without decay
};

}  // namespace heed::optim

namespace heed::cpu {
void sgd_step(Context& context, const optim::SgdStep& p);
}  // namespace heed::cpu
namespace heed::cuda {
void sgd_step(Context& context, const optim::SgdStep& p);
}  // namespace heed::cuda
