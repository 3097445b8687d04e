// Sum of squares, see cuda/reduce.cuh: 4 bytes read per gradient, one multiplication and one addition in f64;
// memory-bound.
#include "optim/grad_clip.hpp"

#include "autograd/cuda/reduce.cuh"

namespace heed::cuda {
namespace {

struct Square {
  // Widen to f64 before squaring: no square of an f32 overflows or underflows then.
  __device__ double operator()(float x) const { return static_cast<double>(x) * static_cast<double>(x); }
};
struct Write {
  double* to;
  __device__ void operator()(double sum) const { *to = sum; }
};

}  // namespace

void sum_of_squares(Context& context, const optim::SumOfSquares& p) {
  sum_in_f64(context, p.values.shape.numel(), Square{}, elements<float>(p.values), Write{elements<double>(p.sum)});
}

}  // namespace heed::cuda
