// copy: y = x in a new tensor; dx = dy.
//   x any shape and dtype    y as x    Saves nothing. Throws nothing but MemoryError.
// reshape: y = the elements of x, in the same order, in another shape. A copy, unlike reshape() of PyTorch; dx = dy in
// the shape of x. In the form with a list one dimension may be -1: what the number of elements leaves for it.
//   x any shape and dtype    y as x    Saves nothing. Throws ShapeError unless x and y have as many elements.
// cast: y = x in another floating dtype, rounded to nearest (f64 to bf16 through f32); NaN and Inf are preserved,
// values that are too large become Inf. dx is dy in the dtype of x.
//   x any shape f32|bf16|f64    y the same shape, dtype f32|bf16|f64; the dtype of x itself makes a copy
//   Saves nothing. Throws DTypeError (i32 on either side).
#pragma once

#include <initializer_list>

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor copy(const Tensor& x);
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor reshape(const Tensor& x, std::initializer_list<int64_t> dimensions);
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
