// Log-softmax and negative log-likelihood, fused: loss = (sum over targets of log(sum_j e^{x_j}) - x_target) /
// denominator, in nats.
//   logits (..., V) f32|bf16|f64    targets (...) i32    loss: a scalar, shape (), dtype of logits (f32 for bf16)
// dlogits = (softmax - onehot(target)) * dloss / denominator; exactly 0 for ignored targets and padded columns.
// The largest logit of a row is subtracted before exponentials are computed, so logits of any size are safe. The losses
// of the rows are summed in f64 in a fixed order. A NaN in dloss, or in the logits of a target that is not ignored,
// propagates.
// Saves logits, targets, 1 / denominator, and per row the largest logit and the sum of the exponentials.
// Throws ShapeError, DTypeError, DeviceError, ValueError (a target outside [0, V), an invalid option).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/device_scalar.hpp"
#include "autograd/core/token_range.hpp"
#include "autograd/tensor.hpp"

namespace heed {

struct CrossEntropyOptions {
  // Targets of this value are ignored: no loss, no gradient, not counted.
  int32_t ignore_index = -1;
  // 0: the number of targets that are not ignored (if all are, the loss is 0). Otherwise the divisor, such as the
  // number of targets of the whole training step if the targets here are a part of them.
  DeviceScalar<double> denominator = 0;
  // The vocabulary size if logits has more columns (padding, which is not even read). 0: all columns.
  int64_t vocab = 0;
};

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {});

struct CrossEntropyForward {
  TensorRef loss = {};
  TensorRef row_max = {}, row_sum = {};  // (rows), dtype of loss; not written for ignored targets
  TensorRef weight = {};                 // scalar f64: 1 / denominator, 0 if all targets are ignored
  ConstTensorRef logits = {}, targets = {};
  CrossEntropyOptions options = {};

  TokenRange token_range() const {
    return {.what = "cross_entropy: target",
            .shape = targets.shape,
            .vocabulary = options.vocab,
            .ignored = options.ignore_index};
  }
};
struct CrossEntropyBackward {
  GradientSink dlogits = {};
  ConstTensorRef dloss = {}, logits = {}, targets = {}, row_max = {}, row_sum = {}, weight = {};
  CrossEntropyOptions options = {};
};

namespace cpu {
void cross_entropy_forward(Context& context, const CrossEntropyForward& p);
void cross_entropy_backward(Context& context, const CrossEntropyBackward& p);
}  // namespace cpu
namespace cuda {
void cross_entropy_forward(Context& context, const CrossEntropyForward& p);
void cross_entropy_backward(Context& context, const CrossEntropyBackward& p);
}  // namespace cuda

}  // namespace heed
