// copy: a device-to-device memcpy, for any dtype. cast: one pass over memory (cuda/elementwise.cuh).
#include "autograd/ops/copy.hpp"

#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/elementwise.cuh"

namespace heed::cuda {
namespace {

struct Identity {
  __device__ float operator()(float x) const { return x; }
};

}  // namespace

void copy_elements(Context&, const TensorRef& y, const ConstTensorRef& x) {
  const int64_t bytes = x.shape.numel() * size_bytes(x.dtype);
  if (bytes > 0) copy_on_device(y.data, x.data, bytes);
}

void cast_elements(Context&, const TensorRef& y, const ConstTensorRef& x) {
  visit_elements("cast", y.dtype, [&](auto to) {
    visit_elements("cast", x.dtype, [&](auto from) {
      elementwise(x.shape.numel(), Identity{}, elements<decltype(to)>(y), elements<decltype(from)>(x));
    });
  });
}

}  // namespace heed::cuda
