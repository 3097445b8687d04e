// Elementwise sums and fills of gradients, see elementwise.cuh.
#include "autograd/core/accumulate.hpp"

#include "autograd/cuda/elementwise.cuh"

namespace heed::cuda {
namespace {

struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Constant {
  float value;
  __device__ float operator()() const { return value; }
};

}  // namespace

void add(Context&, const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b) {
  visit_elements("add", a.dtype, [&](auto zero) {
    using A = decltype(zero);
    visit_elements("add", b.dtype, [&](auto other) {
      elementwise(sum.shape.numel(), Plus{}, elements<A>(sum), elements<A>(a), elements<decltype(other)>(b));
    });
  });
}

void accumulate(Context& context, const TensorRef& y, const ConstTensorRef& x) { add(context, y, y, x); }

void set_all(Context&, const TensorRef& y, double value) {
  visit_elements("set_all", y.dtype, [&](auto zero) {
    elementwise(y.shape.numel(), Constant{static_cast<float>(value)}, elements<decltype(zero)>(y));
  });
}

}  // namespace heed::cuda
