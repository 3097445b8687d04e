// Gradient descent with momentum and decoupled weight decay:
//   w -= lr * weight_decay * w      only for spans with decay, before the gradient step
//   v = momentum * v + g            g = gradient * gradient_scale; v starts at 0, so that the first v is g
//   w -= lr * v                     momentum = 0: w -= lr * g, and no v is kept
// In the dtype of the weights; the factors that are the same for all elements are computed in f64 first. Momentum as in
// torch.optim.SGD (Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", with the
// learning rate outside v); weight decay as in AdamW, which torch.optim.SGD adds to the gradient instead.
#pragma once

#include "autograd/core/context.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

struct SgdOptions {
  double momentum = 0.0;  // in [0, 1)
  double weight_decay = 0.0;
};

class Sgd final : public Optimizer {
 public:
  // Throws ValueError for options out of their range, and as Optimizer does. State: v of each span; none without
  // momentum.
  Sgd(std::vector<ParameterSpan> spans, const SgdOptions& options);

 private:
  void update(size_t span, const StepScalars& scalars) override;

  SgdOptions options_;
  std::vector<Tensor> v_;  // one per span; empty without momentum
};

struct SgdStep {
  TensorRef weights = {};
  TensorRef v = {};       // no data without momentum
  TensorRef copies = {};  // no data without copies
  ConstTensorRef gradients = {};
  StepScalars scalars = {};
  double momentum = 0;
  double weight_decay = 0;  // 0 for a span without decay
};

}  // namespace heed::optim

namespace heed::cpu {
void sgd_step(Context& context, const optim::SgdStep& p);
}  // namespace heed::cpu
namespace heed::cuda {
void sgd_step(Context& context, const optim::SgdStep& p);
}  // namespace heed::cuda
