// Clipping by the norm of all gradients together.
#pragma once

#include "autograd/core/context.hpp"
#include "optim/optimizer.hpp"

namespace heed::optim {

// sqrt(sum of g^2) over the gradients of all spans. Squares and sums in f64 and in a fixed order: the same bits for any
// number of threads, and no overflow for any f32 gradients. A NaN or Inf in any gradient makes the norm NaN or Inf.
// Throws DTypeError for other dtypes than f32 and f64.
double global_norm(const std::vector<ParameterSpan>& spans);

// The sum of g^2 over all spans, of which global_norm() is the root: to be added up where each rank has a part.
double sum_of_squares(const std::vector<ParameterSpan>& spans);

// The sum of g^2 of each span, f64 (spans), on the device of the gradients.
Tensor squares_of_gradients(const std::vector<ParameterSpan>& spans);

// What gradients are multiplied by so that their norm is at most clip_norm: min(1, clip_norm / (norm + 1e-6)), as
// PyTorch's clip_grad_norm_ has it; 1 for a clip_norm of 0 (off). With a norm that is not finite there is no sound
// factor, and Optimizer::step() refuses the NaN or 0 that comes of it.
// Throws ValueError for a negative norm, and unless clip_norm is finite and not negative.
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
