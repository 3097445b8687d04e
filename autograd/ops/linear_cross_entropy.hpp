// The output head of a language model and its loss, fused: loss = cross_entropy(softcap(x weight^T)), without the
// softcap if it is 0; formulas in linear.hpp, elementwise.hpp and cross_entropy.hpp.
//   x (..., K) f32|bf16|f64    weight (V, K) as x    targets (...) i32
//   loss: a scalar, shape (), dtype of x (f32 for bf16)
//   dx as x; dweight is f32 for bf16
// The rows are processed in chunks, and only the logits of one chunk are in memory. The number of rows of a chunk is
// the largest power of two whose logits (with a softcap also their gradients) fit into chunk_bytes, and at least 1. The
// operation also allocates 16 bytes per row (24 in f64).
// On CUDA the rows of logits are padded to multiples of 16 bytes, the alignment that the fastest kernels of cuBLASLt
// need; bf16 rows of V = 50257 alone would have a multiple of 2 bytes. chunk_bytes includes the padding.
// With a single chunk, the results have the bits of the separate operations, on CUDA only if V needs no padding: there
// the order of sums depends on the alignment. With several chunks, the losses are still added in the order of the rows;
// dweight accumulates chunk by chunk, so its last bits depend on the chunk size.
// Throws ShapeError, DTypeError, DeviceError, ValueError as these operations do.
#pragma once

#include "autograd/ops/cross_entropy.hpp"
#include "autograd/tensor.hpp"

namespace heed {

struct LinearCrossEntropyOptions {
  CrossEntropyOptions cross_entropy = {};
  // Optional, f64, of the shape of targets: receives the per-token losses, 0 for ignored targets. No gradient flows
  // through them.
  Tensor losses = {};
  double softcap = 0;                // 0: none
  int64_t chunk_bytes = 60'000'000;  // with the row statistics and the rounding of the pool, below 64 MB for 32768 rows
};

// Saves x, weight, targets and the statistics of the rows; backward recomputes the logits.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets,
                            const LinearCrossEntropyOptions& options = {});

// Fuses loss = linear_cross_entropy(x, weight, targets, options) with backward(loss), for a training step: the
// gradients of a chunk are computed while its logits are in memory, so each logit is computed only once. The returned
// loss is not in the graph. Also throws GraphError like backward(). Move x into the call: its elements are then freed
// as soon as no operation needs them.
Tensor linear_cross_entropy_and_backward(Tensor x, const Tensor& weight, const Tensor& targets,
                                         const LinearCrossEntropyOptions& options = {});

// The bytes of the logits of a chunk with their padding, with a softcap also those of their gradients.
int64_t linear_cross_entropy_chunk_bytes(int64_t rows, int64_t vocab, DType dtype, Device device,
                                         const LinearCrossEntropyOptions& options);

}  // namespace heed
