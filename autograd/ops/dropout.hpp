// Dropout: y = x / (1 - p) if kept, else 0; dropout_add: y = residual + dropout(x) in one pass.
//   x (..., C) f32|bf16|f64, used as rows of C    residual as x    y as x
// Element (r, c) uses word (first_row + r) ceil4(C) + c of the random stream (core/philox.hpp), ceil4 = rounded up to a
// multiple of 4, and is kept iff that word is >= round(p 2^32). first_row is the index in the *global* batch of the
// first row of x (in rows of x), so the mask depends neither on micro-batches nor on ranks. Nothing is saved: backward
// recomputes the mask. If round(p 2^32) = 0 (p = 0), y is x itself, or residual + x. p = 1: dropout(x) and dx are 0. A
// dropped NaN or Inf is dropped, a kept one propagates. Throws ShapeError, DTypeError, DeviceError, ValueError (p
// outside [0, 1], first_row below 0). Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014 (JMLR 15).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/philox.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor dropout(const Tensor& x, double p, const RandomStream& random, int64_t first_row);
Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, const RandomStream& random, int64_t first_row);

// Drop threshold round(p 2^32): an element whose word is below it is dropped. 2^32 for p = 1, above every word.
uint64_t dropout_threshold(double p);

// y = dropout(x) + residual; residual is optional and may be y itself. Also its own backward: dx = dropout(dy).
struct Dropout {
  TensorRef y = {};
  ConstTensorRef x = {}, residual = {};
  double p = 0;  // dropout_threshold(p) must be above 0
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
