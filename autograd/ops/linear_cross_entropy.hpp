// The output head of a language model and its loss, fused: loss = cross_entropy(softcap(x weight^T)), without the
// softcap if it is 0; formulas in linear.hpp, elementwise.hpp and cross_entropy.hpp.
//   x (..., K) f32|bf16|f64    weight (V, K) as x    targets (...) i32
//   loss: a scalar, shape (), dtype of x (f32 for bf16)
//   dx as x; dweight is f32 for bf16
// The logits (..., V) are never in memory as a whole: the rows are processed in chunks, of the largest power of two of
// rows whose logits (with a softcap also their gradients) fit into chunk_bytes, and at least one row. In addition there
// are 16 bytes a row (24 in f64).
// In one chunk the results have the bits of the separate operations. In several, the losses are still added in the
// order of the rows; dweight is added chunk by chunk, so its last bits depend on the size of a chunk.
// Throws ShapeError, DTypeError, DeviceError, ValueError as these operations do.
#pragma once

#include "autograd/ops/cross_entropy.hpp"
#include "autograd/tensor.hpp"

namespace heed {

struct LinearCrossEntropyOptions {
  CrossEntropyOptions cross_entropy = {};
  // If given, it receives the loss of each target: f64, of the shape of targets, 0 for ignored ones. They have no
  // gradient.
  Tensor losses = {};
  double softcap = 0;                // 0: none
  int64_t chunk_bytes = 60'000'000;  // below 64 MB with the rest for 32768 rows, rounded up as the pool does
};

// Saves x, weight, targets and the statistics of the rows; backward computes the logits again.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options = {});

// loss = linear_cross_entropy(x, weight, targets, options) and backward(loss) in one, as a training step needs it: the
// gradients of a chunk are computed while its logits are in memory, so each logit is computed only once. The loss that
// is returned is not in the graph. Also throws GraphError as backward() does. x is by value so that a caller can move
// it here: its elements are then freed as soon as no operation needs them.
Tensor linear_cross_entropy_and_backward(Tensor x, const Tensor& weight, const Tensor& targets,
                                         const LinearCrossEntropyOptions& options = {});

// The bytes of a chunk: logits, and with a softcap also their gradients.
int64_t linear_cross_entropy_chunk_bytes(int64_t rows, int64_t vocab, DType dtype,
                                         const LinearCrossEntropyOptions& options);

}  // namespace heed
