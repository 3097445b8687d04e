// Gradient clipping by the global norm.
#pragma once

#include "autograd/core/context.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

// sqrt(sum of g^2) over the gradients of all spans. Squares and sums are f64, in a fixed order: the bits do not depend
// on the number of threads, and no f32 gradient overflows. A NaN or Inf in any gradient makes the norm NaN or Inf.
// Throws DTypeError for other dtypes than f32 and f64.
double global_norm(const std::vector<ParameterSpan>& spans);

// The sum of g^2 of each span, f64 of shape (spans), on the device of the gradients: to be summed over ranks if each
// rank has a shard.
Tensor squares_of_gradients(const std::vector<ParameterSpan>& spans);

// The factor that scales gradients to a norm of at most clip_norm: min(1, clip_norm / (norm + 1e-6)), as in PyTorch's
// clip_grad_norm_; 1 for a clip_norm of 0 (off). For a NaN or Inf norm there is no valid factor: with a clip_norm above
// 0 it is NaN or 0, which Optimizer::step() rejects. Throws ValueError for a negative norm, and unless clip_norm is
// finite and not negative.
double clip_factor(double norm, double clip_norm);

struct SumOfSquares {
  TensorRef sum = {};  // f64, one element
  ConstTensorRef values = {};
};

}  // namespace heed::optim

namespace heed::cpu {
void sum_of_squares(Context& context, const optim::SumOfSquares& p);
}  // namespace heed::cpu
namespace heed::cuda {
void sum_of_squares(Context& context, const optim::SumOfSquares& p);
}  // namespace heed::cuda
