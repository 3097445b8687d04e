// Elementwise kernels of the tape, on every backend: accumulate gradients, and fill the first one.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed {

namespace cpu {
// y += x; both have the same shape, and the same dtype or one f32 and the other bf16.
void accumulate(Context& context, const TensorRef& y, const ConstTensorRef& x);
// sum = a + b, out of place; sum has the shape and dtype of a.
void add(Context& context, const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b);
// y[i] = value, rounded to the dtype of y.
void set_all(Context& context, const TensorRef& y, double value);
}  // namespace cpu

namespace cuda {
void accumulate(Context& context, const TensorRef& y, const ConstTensorRef& x);
void add(Context& context, const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b);
void set_all(Context& context, const TensorRef& y, double value);
}  // namespace cuda

}  // namespace heed
