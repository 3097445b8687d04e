// copy: y = x in a new tensor; dx = dy.
//   x any shape and dtype    y as x
// Saves nothing for backward. Throws nothing but MemoryError.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor copy(const Tensor& x);

namespace cpu {
void copy_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
}  // namespace cpu
namespace cuda {
void copy_elements(Context& context, const TensorRef& y, const ConstTensorRef& x);
}  // namespace cuda

}  // namespace heed
