// One pass over memory (cuda/elementwise.cuh).
#include "autograd/ops/cast.hpp"

#include "autograd/cuda/elementwise.cuh"
#include "autograd/cuda/gemm.hpp"

namespace heed::cuda {
namespace {

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

void cast_elements(Context&, const TensorRef& y, const ConstTensorRef& x) {
  visit_elements("cast", y.dtype, [&](auto to) {
    visit_elements("cast", x.dtype, [&](auto from) {
      elementwise(x.shape.numel(), Identity{}, elements<decltype(to)>(y), elements<decltype(from)>(x));
    });
  });
}

void round_to_bf16(Context&, void* y, const float* x, int64_t n) {
  elementwise(n, Identity{}, static_cast<__nv_bfloat16*>(y), x);
}

}  // namespace heed::cuda
