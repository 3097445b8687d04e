// Dropout: y = x / (1 - p) where kept, else 0; dropout_add: y = residual + dropout(x) in one pass.
//   x (..., C) f32|bf16|f64 seen as rows of C    residual as x    y as x
// Element (r, c) has the index (first_row + r) ceil4(C) + c, ceil4 = rounded up to a multiple of 4, and is kept where
// random's word of that index is >= round(p 2^32) (core/philox.hpp). first_row is the row of the *global* batch that x
// starts with (in rows of x), so the mask depends neither on micro-batches nor on ranks. Nothing is kept: backward
// makes the mask again. Where no word is below the threshold (p = 0) y is x itself, or residual + x. p = 1 gives 0 and
// gradients of 0. A dropped NaN or Inf is dropped, a kept one stays. Throws ShapeError, DTypeError, ValueError (p
// outside [0, 1], first_row below 0). Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014 (JMLR 15).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/philox.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor dropout(const Tensor& x, double p, const RandomStream& random, int64_t first_row);
Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, const RandomStream& random, int64_t first_row);

// round(p 2^32): words below it drop their element. 2^32 for p = 1, which no word reaches.
uint64_t dropout_threshold(double p);

// y = dropout(x) + residual, residual optional and possibly y itself. The gradient is the same map: dx = dropout(dy).
struct Dropout {
  TensorRef y = {};
  ConstTensorRef x = {}, residual = {};
  double p = 0;  // with a threshold above 0
  RandomStream random = {};
  int64_t first_row = 0;
};

namespace cpu {
void apply_dropout(Context& context, const Dropout& p);
}  // namespace cpu
namespace cuda {
void apply_dropout(Context& context, const Dropout& p);
}  // namespace cuda

}  // namespace heed
