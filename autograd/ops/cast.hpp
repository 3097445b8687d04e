// cast: the elements in another floating dtype, rounded to nearest (f64 to bf16 by way of f32); NaN and Inf stay, what
// is too large becomes Inf.
//   x any shape f32|bf16|f64    y the same shape, dtype f32|bf16|f64; the dtype of x itself makes a copy
// The gradient is dy in the dtype of x. Keeps nothing. Throws DTypeError (i32 on either side).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor cast(const Tensor& x, DType dtype);

namespace cpu {
void cast_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
}  // namespace cpu
namespace cuda {
void cast_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
}  // namespace cuda

}  // namespace heed
