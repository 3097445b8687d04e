// Rotary position embedding: in the rotated heads, each pair of columns i and i + R/2, i = 0 … R/2 - 1, turns by an
// angle that depends on the position.
//   y[i] = x[i] cos - x[i + R/2] sin    y[i + R/2] = x[i + R/2] cos + x[i] sin
//   x (B, T, heads D) f32|bf16|f64    table (positions, R), f32 (f64 for f64)    y as x
// Row p of the table holds the cosines of the R/2 angles at position p, then their sines (nn/rope_table.hpp); x[b, t]
// is at position first_position + t. Columns of a head from R on, and heads that are not rotated, pass through (partial
// rotary embedding: Black et al. 2022, arXiv 2204.06745). The pairs are those of GPT-NeoX and of transformers' Llama,
// not the neighbours 2i and 2i + 1 of the paper; a permutation of the rows of the query and key weights turns one into
// the other. Keeps the table for backward, which turns dy back, in the memory of dy where it can. Throws ShapeError,
// DTypeError, DeviceError, ValueError. Su et al. 2021 (arXiv 2104.09864).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

struct RopeOptions {
  int64_t num_heads = 1;
  int64_t rotated_heads = 0;   // the first ones; 0: all. In packed qkv the values are not rotated
  int64_t first_position = 0;  // of t = 0
};

Tensor rope(const Tensor& x, const Tensor& table, const RopeOptions& options);

// y = x, rotated, or rotated back. y may be x.
struct Rope {
  GradientSink y = {};
  ConstTensorRef x = {}, table = {};
  RopeOptions options = {};  // rotated_heads above 0
  bool inverse = false;

  int64_t head_size() const { return x.shape.columns() / options.num_heads; }
};

namespace cpu {
void apply_rope(Context& context, const Rope& p);
}  // namespace cpu
namespace cuda {
void apply_rope(Context& context, const Rope& p);
}  // namespace cuda

}  // namespace heed
