// One pass over weights and gradients: 8 bytes read and 4 written per parameter, memory-bound.
//
// Threads: thread blocks of 256; each thread processes 4 adjacent elements. Each element is computed independently: the
// bits do not depend on the order.
#include "optim/sgd.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256, kWidth = 4;

template <int N>
__device__ __forceinline__ void step(float* weights, const float* gradients, float rate, float decay) {
  const Floats<N> g = load<N>(gradients);
  Floats<N> w = load<N>(weights);
#pragma unroll
  for (int i = 0; i < N; ++i) w.value[i] -= fmaf(decay, w.value[i], rate * g.value[i]);
  store<N>(weights, w);
}

template <int N>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(float* weights, const float* gradients, int64_t count, optim::StepScalars p, double weight_decay) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (p.is_valid.get() == 0) return;
  const double learning_rate = p.learning_rate.get(), scale = p.gradient_scale.get();
  // lr * weight_decay, not 1 - lr * weight_decay, which loses too many digits in f32.
  const auto rate = static_cast<float>(learning_rate * scale), decay = static_cast<float>(learning_rate * weight_decay);
  if (first + N <= count) {
    step<N>(weights + first, gradients + first, rate, decay);
  } else {
    for (int64_t i = first; i < count; ++i) step<1>(weights + i, gradients + i, rate, decay);
  }
}

}  // namespace

void sgd_step(Context&, const optim::SgdStep& p) {
  const int64_t count = p.weights.shape.numel();
  if (count == 0) return;
  float* weights = elements<float>(p.weights);
  const float* gradients = elements<float>(p.gradients);
  const bool wide = can_move<kWidth>(0, weights, gradients);
  launch(wide ? sgd_kernel<kWidth> : sgd_kernel<1>, {blocks_for(count, kThreads * (wide ? kWidth : 1)), kThreads},
         weights, gradients, count, p.scalars, p.weight_decay);
}

}  // namespace heed::cuda
