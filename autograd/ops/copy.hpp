// copy: y = x in a new tensor; dx = dy.
//   x any shape and dtype    y as x    Saves nothing. Throws nothing but MemoryError.
// cast: y = x in another floating dtype, rounded to nearest (f64 to bf16 through f32); NaN and Inf are preserved,
// values that are too large become Inf. dx is dy in the dtype of x.
//   x any shape f32|bf16|f64    y the same shape, dtype f32|bf16|f64; the dtype of x itself makes a copy
//   Saves nothing. Throws DTypeError (i32 on either side).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor copy(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);

namespace cpu {
void copy_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
void cast_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
}  // namespace cpu
namespace cuda {
void copy_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
void cast_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
}  // namespace cuda

}  // namespace heed
