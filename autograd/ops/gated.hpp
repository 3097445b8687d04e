// The gated activations of MLPs, on the output of one linear layer with twice the features:
//   swiglu   y = silu(gate) * up
//   geglu    y = gelu(gate) * up, gelu in the tanh form
//   h (..., 2F) f32|bf16|f64, each row [gate | up]    y (..., F) as h
//   dgate = dy up f'(gate), dup = dy f(gate), for f = silu or gelu (elementwise.hpp)
// Saves h for backward, whose gradient may take its memory. A NaN propagates. Throws ShapeError (a scalar, an odd last
// dimension), DTypeError. Shazeer 2020 (arXiv 2002.05202).
#pragma once

#include "autograd/core/context.hpp"
#include "autograd/tensor.hpp"

namespace heed {

Tensor swiglu(const Tensor& h);
Tensor geglu(const Tensor& h);

enum class Gate { silu, gelu };

struct GatedForward {
  TensorRef y = {};
  ConstTensorRef h = {};
  Gate gate = Gate::silu;
};
struct GatedBackward {
  GradientSink dh = {};  // may be h
  ConstTensorRef dy = {}, h = {};
  Gate gate = Gate::silu;
};

namespace cpu {
void gated_forward(Context& context, const GatedForward& p);
void gated_backward(Context& context, const GatedBackward& p);
}  // namespace cpu
namespace cuda {
void gated_forward(Context& context, const GatedForward& p);
void gated_backward(Context& context, const GatedBackward& p);
}  // namespace cuda

}  // namespace heed
