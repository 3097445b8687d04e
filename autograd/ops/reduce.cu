// Forward: cuda/reduce.cuh; 2 or 4 bytes read per element. Backward: fills dx with one value, 2 or 4 bytes written per
// element, and also read if it accumulates. Both are memory-bound.
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

constexpr int kSpreadThreads = 256;

// Threads: each writes N adjacent elements.
template <int N, class T>
__global__ void __launch_bounds__(kSpreadThreads)
    spread_kernel(T* dx, bool add, const float* dy, double divisor, int64_t n) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kSpreadThreads + threadIdx.x) * N;
  if (first >= n) return;
  const float gradient = static_cast<float>(static_cast<double>(*dy) / divisor);
  Floats<N> out = add ? load<N>(dx + first) : Floats<N>{};
#pragma unroll
  for (int i = 0; i < N; ++i) out.value[i] = add ? out.value[i] + gradient : gradient;
  store<N>(dx + first, out);
}

}  // namespace

void reduce_forward(Context& context, const ReduceForward& p) {
  visit_elements("reduce", p.x.dtype, [&](auto zero) {
    sum_in_f64(context, p.x.shape.numel(), Same{}, elements<decltype(zero)>(p.x),
               Divided{.y = elements<float>(p.y), .divisor = p.divisor});
  });
}

void reduce_backward(Context&, const ReduceBackward& p) {
  const int64_t n = p.dx.ref.shape.numel();
  if (!p.dx || n == 0) return;
  visit_elements("reduce", p.dx.ref.dtype, [&](auto zero) {
    using T = decltype(zero);
    T* dx = elements<T>(p.dx.ref);
    constexpr int kVector = kPerVector<T>;
    const bool wide = can_move<kVector>(n, dx);
    launch(wide ? spread_kernel<kVector, T> : spread_kernel<1, T>,
           {blocks_for(n, kSpreadThreads * (wide ? kVector : 1)), kSpreadThreads}, dx, p.dx.add, elements<float>(p.dy),
           p.divisor, n);
  });
}

}  // namespace heed::cuda
