// cuda/reduce.cuh; 2 or 4 bytes read per element, memory-bound.
#include "autograd/ops/reduce.hpp"

#include "autograd/cuda/reduce.cuh"

namespace heed::cuda {
namespace {

struct Same {
  __device__ double operator()(float x) const { return x; }
};
struct Divided {
  float* y;
  double divisor;
  __device__ void operator()(double sum) const { *y = static_cast<float>(sum / divisor); }
};

}  // namespace

void reduce_forward(Context& context, const ReduceForward& p) {
  visit_elements("reduce", p.x.dtype, [&](auto zero) {
    sum_in_f64(context, p.x.shape.numel(), Same{}, elements<decltype(zero)>(p.x),
               Divided{.y = elements<float>(p.y), .divisor = p.divisor});
  });
}

}  // namespace heed::cuda
