// y += x, elementwise: how the tape adds gradients. y, x of one shape and dtype (f32|f64).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::cpu {

void accumulate(Context& context, const TensorRef& y, const ConstTensorRef& x);
// sum = a + b, without changing either.
void add(Context& context, const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b);

}  // namespace heed::cpu
