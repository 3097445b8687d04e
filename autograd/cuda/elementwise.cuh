// Elementwise kernel: y[i] = f(inputs[i] …) in f32, over tensors with the same number of elements.
//
// Threads: thread blocks of 256. Each thread processes as many adjacent elements as 16 bytes of y hold, or one if size
// or alignment do not allow it. Memory: every tensor is read or written once. The bits do not depend on the order.
#pragma once

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {

constexpr int kElementwiseThreads = 256;

template <int N, class F, class Y, class... X>
__global__ void __launch_bounds__(kElementwiseThreads) elementwise_kernel(int64_t n, F f, Y* y, const X*... x) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x) * N;
  if (first >= n) return;
  const auto apply = [&](auto... in) {
    Floats<N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.value[i] = f(in.value[i]...);
    store<N>(y + first, out);
  };
  apply(load<N>(x + first)...);
}

// y may alias an input. f: a functor with a __device__ float operator()(float…).
template <class F, class Y, class... X>
void elementwise(int64_t n, F f, Y* y, const X*... x) {
  if (n == 0) return;
  const auto run = [&](auto kernel, int64_t vectors) {
    launch(kernel, {blocks_for(vectors, kElementwiseThreads), kElementwiseThreads}, n, f, y, x...);
  };
  constexpr int kVector = kPerVector<Y>;
  can_move<kVector>(n, y, x...) ? run(elementwise_kernel<kVector, F, Y, X...>, n / kVector)
                                : run(elementwise_kernel<1, F, Y, X...>, n);
}

template <class F>
struct Added {
  F f;
  template <class... X>
  __device__ float operator()(float y, X... x) const {
    return y + f(x...);
  }
};

// The same for a gradient: written, or accumulated; nothing is launched if it is not needed.
template <class Y, class F, class... X>
void elementwise_into(const GradientSink& sink, F f, const X*... x) {
  if (!sink) return;
  Y* y = elements<Y>(sink.ref);
  sink.add ? elementwise(sink.ref.shape.numel(), Added<F>{f}, y, y, x...)
           : elementwise(sink.ref.shape.numel(), f, y, x...);
}

}  // namespace heed::cuda
