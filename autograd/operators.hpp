// Arithmetic on tensors: + - * / as in PyTorch. Every operator is one operation of autograd/ops, or two: it is recorded
// on the tape, makes a new tensor, and throws what the operation throws.
//   tensor and tensor   add, sub, mul, div of elementwise.hpp: both have the same dtype, their shapes broadcast
//   tensor and number   the result has the shape and dtype of the tensor, also for bf16
//     x + c, x - c, c - x, c * x   the number is rounded to f32 for f32 and bf16
//     x / c   x times 1/c, which is rounded in the same way: unless c is a power of two, an element may differ from the
//             quotient in its last bit
//     c / x   the number is rounded to the dtype of x, so in bf16 it has 8 significant bits
#pragma once

#include "autograd/ops/elementwise.hpp"

namespace heed {

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }

inline Tensor operator-(const Tensor& x) { return scale(x, -1); }

inline Tensor operator+(const Tensor& x, double c) { return add_scalar(x, c); }
inline Tensor operator+(double c, const Tensor& x) { return add_scalar(x, c); }
inline Tensor operator-(const Tensor& x, double c) { return add_scalar(x, -c); }
inline Tensor operator-(double c, const Tensor& x) { return add_scalar(-x, c); }
inline Tensor operator*(const Tensor& x, double c) { return scale(x, c); }
inline Tensor operator*(double c, const Tensor& x) { return scale(x, c); }
inline Tensor operator/(const Tensor& x, double c) { return scale(x, 1 / c); }
inline Tensor operator/(double c, const Tensor& x) {
  require<DTypeError>(is_floating(x.dtype()), "div: x is {}, it must be f32, bf16 or f64", x.dtype());
  return div(full({}, x.dtype(), c, x.device()), x);
}

}  // namespace heed
