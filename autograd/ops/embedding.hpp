// embedding: y[..., :] = table[tokens[...], :]
//   table (V, C) f32|bf16|f64    tokens (...) i32    y (..., C) as table
//   The gradient of a table row is the sum of dy over the positions of its token, in their order: no atomics, the same
//   bits for any threads. Where it is added to an existing gradient only the rows of tokens that occur are touched.
//   It is summed in f32 for a bf16 table. Keeps tokens.
// add_positions: y[b, t, :] = x[b, t, :] + positions[t, :]
//   x (B, T, C) f32|bf16|f64    positions (at least T, C) as x, the first T rows are used    y as x
//   dpositions is the sum over b, in order; 0 for rows from T on. Keeps nothing.
// Throws ShapeError, DTypeError, ValueError (a token outside [0, V)).
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
