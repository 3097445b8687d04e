// What the tape does to gradients: it adds them, elementwise, and sets the first one. Both on every backend.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed {

namespace cpu {
// y += x; y, x of one shape and dtype, or one f32 and the other bf16.
void accumulate(Context& context, const TensorRef& y, const ConstTensorRef& x);
// sum = a + b, without changing either; sum as a.
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
