// Plain gradient descent with decoupled weight decay, no momentum:
//   w -= lr * weight_decay * w      decayed spans only, before the move
//   w -= lr * gradient_scale * gradient
// In the dtype of the weights; the two factors are computed in f64 first. Remembers nothing but the number of updates.
#pragma once

#include "autograd/core/context.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

struct SgdOptions {
  double weight_decay = 0.0;
};

class Sgd final : public Optimizer {
 public:
  // Throws ValueError for a negative weight decay, and as Optimizer does.
  Sgd(std::vector<ParameterSpan> spans, const SgdOptions& options);

 private:
  void update(size_t span, const StepNumbers& numbers) override;

  SgdOptions options_;
};

struct SgdStep {
  TensorRef weights = {};
  ConstTensorRef gradients = {};
  StepNumbers numbers = {};
  double weight_decay = 0;  // 0 for a span that is not decayed
};

}  // namespace heed::optim

namespace heed::cpu {
void sgd_step(Context& context, const optim::SgdStep& p);
}  // namespace heed::cpu
namespace heed::cuda {
void sgd_step(Context& context, const optim::SgdStep& p);
}  // namespace heed::cuda
