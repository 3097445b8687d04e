// y += x, elementwise: how the tape adds gradients. y, x of one shape and dtype, or one f32 and the other bf16.
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/core/tensor_ref.hpp"

namespace heed::cpu {

void accumulate(Context& context, const TensorRef& y, const ConstTensorRef& x);
// sum = a + b, without changing either; sum as a.
void add(Context& context, const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b);

}  // namespace heed::cpu
