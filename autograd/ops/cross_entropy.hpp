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

// Throws what cross_entropy() throws for logits of this shape and dtype; `operation` is the name in the messages.
void check_cross_entropy(const char* operation, const Shape& logits, DType dtype, const Tensor& targets,
                         const CrossEntropyOptions& options);

// Forward is CrossEntropyWeight for all targets, then CrossEntropyRows for one or more chunks of rows, then
// CrossEntropySum. In `options` of these structs, vocab is not 0.

// Checks the targets (on CUDA without an exception: cuda/token_check.cuh) and counts them.
struct CrossEntropyWeight {
  TensorRef weight = {};  // scalar f64: 1 / denominator, 0 if all targets are ignored
  ConstTensorRef targets = {};
  CrossEntropyOptions options = {};

  TokenRange token_range() const {
    return {.what = "cross_entropy: target",
            .shape = targets.shape,
            .vocabulary = options.vocab,
            .ignored = options.ignore_index};
  }
};
struct CrossEntropyRows {
  TensorRef losses = {};                 // (rows) f64, 0 for ignored targets
  TensorRef row_max = {}, row_sum = {};  // (rows), accumulation dtype of logits; not written for ignored targets
  ConstTensorRef logits = {}, targets = {};
  CrossEntropyOptions options = {};
};
struct CrossEntropySum {
  TensorRef loss = {};  // weight times the sum of the losses
  ConstTensorRef losses = {}, weight = {};
};
struct CrossEntropyBackward {
  GradientSink dlogits = {};
  ConstTensorRef dloss = {}, logits = {}, targets = {}, row_max = {}, row_sum = {}, weight = {};
  CrossEntropyOptions options = {};
};

namespace cpu {
void cross_entropy_weight(Context& context, const CrossEntropyWeight& p);
void cross_entropy_rows(Context& context, const CrossEntropyRows& p);
void cross_entropy_sum(Context& context, const CrossEntropySum& p);
void cross_entropy_backward(Context& context, const CrossEntropyBackward& p);
}  // namespace cpu
namespace cuda {
void cross_entropy_weight(Context& context, const CrossEntropyWeight& p);
void cross_entropy_rows(Context& context, const CrossEntropyRows& p);
void cross_entropy_sum(Context& context, const CrossEntropySum& p);
void cross_entropy_backward(Context& context, const CrossEntropyBackward& p);
}  // namespace cuda

}  // namespace heed
