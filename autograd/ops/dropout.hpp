// Dropout: y = x / (1 - q) if kept, else 0; dropout_add: y = residual + dropout(x) in one pass.
//   x (..., C) f32|bf16|f64, used as rows of C    residual as x    y as x
// Element (r, c) uses the 16-bit half (first_row + r) ceil8(C) + c of the random stream (core/philox.hpp), ceil8 =
// rounded up to a multiple of 8, and is kept iff that half is >= round(p 2^16). q = round(p 2^16) / 2^16 is the rate
// that this draws, |q - p| <= 2^-17; as kept elements are divided by 1 - q, the expectation of y is exactly x.
// first_row is the index in the *global* batch of the first row of x (in rows of x), so the mask depends neither on
// micro-batches nor on ranks. Nothing is saved: backward recomputes the mask. If q = 0 (p < 2^-17), y is x itself, or
// residual + x. If q = 1 (p >= 1 - 2^-17), dropout(x) and dx are 0. A dropped NaN or Inf is dropped, a kept one
// propagates. Throws ShapeError, DTypeError, DeviceError, ValueError (p outside [0, 1], first_row below 0). Srivastava,
// Hinton, Krizhevsky, Sutskever, Salakhutdinov 2014 (JMLR 15).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/philox.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor dropout(const Tensor& x, double p, const RandomStream& random, int64_t first_row);
Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, const RandomStream& random, int64_t first_row);

// Drop threshold round(p 2^16): an element whose 16-bit half is below it is dropped. 2^16 is above every half.
uint32_t dropout_threshold(double p);
// The rate that is drawn, q = dropout_threshold(p) / 2^16.
double dropout_rate(double p);
// The factor of what is kept, 1 / (1 - q); 0 for q = 1.
double dropout_scale(double p);

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
