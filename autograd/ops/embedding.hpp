// embedding: y[..., :] = table[tokens[...], :]
//   table (V, C) f32|bf16|f64    tokens (...) i32    y (..., C) as table
//   dtable[v, :] is the sum of dy over the positions whose token is v, in a fixed order: no atomics, the same bits for
//   any number of threads. It is summed in the accumulation dtype (f32 for bf16). When accumulating into an existing
//   gradient, only rows of tokens that occur are read and written. Saves tokens.
// add_positions: y[b, t, :] = x[b, t, :] + positions[t, :]
//   x (B, T, C) f32|bf16|f64    positions (at least T, C) as x, of which the first T rows are used    y as x
//   dpositions is the sum of dy over b, in a fixed order; 0 for rows from T on. Saves nothing.
// Throws ShapeError, DTypeError, DeviceError, ValueError (a token outside [0, V)).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/token_range.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor embedding(const Tensor& table, const Tensor& tokens);
Tensor add_positions(const Tensor& x, const Tensor& positions);

struct EmbeddingForward {
  TensorRef y = {};
  ConstTensorRef table = {}, tokens = {};

  TokenRange token_range() const {
    return {.what = "embedding: token", .shape = tokens.shape, .vocabulary = table.shape[0]};
  }
};
struct EmbeddingBackward {
  GradientSink dtable = {};
  ConstTensorRef dy = {}, tokens = {};
};
struct AddPositionsForward {
  TensorRef y = {};
  ConstTensorRef x = {}, positions = {};
};
struct AddPositionsBackward {
  GradientSink dpositions = {};
  ConstTensorRef dy = {};
};

namespace cpu {
void embedding_forward(Context& context, const EmbeddingForward& p);
void embedding_backward(Context& context, const EmbeddingBackward& p);
void add_positions_forward(Context& context, const AddPositionsForward& p);
void add_positions_backward(Context& context, const AddPositionsBackward& p);
}  // namespace cpu
namespace cuda {
void embedding_forward(Context& context, const EmbeddingForward& p);
void embedding_backward(Context& context, const EmbeddingBackward& p);
void add_positions_forward(Context& context, const AddPositionsForward& p);
void add_positions_backward(Context& context, const AddPositionsBackward& p);
}  // namespace cuda

}  // namespace heed
