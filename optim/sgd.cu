// One pass over weights and gradients: 8 bytes read and 4 written per parameter, with momentum 12 and 8. A bf16 copy
// adds 2 bytes written. Memory-bound.
//
// Threads: thread blocks of 256; each thread processes 4 adjacent elements. Each element is computed independently: the
// bits do not depend on the order.
#include "optim/sgd.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256, kWidth = 4;

struct Elements {
  float *weights, *v;     // v: nullptr without momentum
  __nv_bfloat16* copies;  // nullptr without copies
  const float* gradients;
  int64_t count;
};
struct Options {
  optim::StepScalars scalars;
  double momentum, weight_decay;
};
struct Factors {
  float rate, scale, momentum, decay;
};

template <int N>
__device__ __forceinline__ void step(const Elements& p, const Factors& f, int64_t first) {
  const Floats<N> g = load<N>(p.gradients + first);
  Floats<N> w = load<N>(p.weights + first);
#pragma unroll
  for (int i = 0; i < N; ++i) w.value[i] -= fmaf(f.decay, w.value[i], f.rate * g.value[i]);
  store<N>(p.weights + first, w);
  if (p.copies != nullptr) store<N>(p.copies + first, w);
}

template <int N>
__device__ __forceinline__ void momentum_step(const Elements& p, const Factors& f, int64_t first) {
  const Floats<N> g = load<N>(p.gradients + first);
  Floats<N> w = load<N>(p.weights + first), v = load<N>(p.v + first);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    v.value[i] = fmaf(f.momentum, v.value[i], f.scale * g.value[i]);
    w.value[i] -= fmaf(f.decay, w.value[i], f.rate * v.value[i]);
  }
  store<N>(p.v + first, v);
  store<N>(p.weights + first, w);
  if (p.copies != nullptr) store<N>(p.copies + first, w);
}

template <int N>
__device__ __forceinline__ void any_step(const Elements& p, const Factors& f, int64_t first) {
  p.v == nullptr ? step<N>(p, f, first) : momentum_step<N>(p, f, first);
}

template <int N>
__global__ void __launch_bounds__(kThreads) sgd_kernel(Elements p, Options options) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  const optim::StepScalars& scalars = options.scalars;
  if (scalars.is_valid.get() == 0) return;
  const double learning_rate = scalars.rate(), scale = scalars.gradient_scale.get();
  // Without momentum one factor for the gradient: fewer roundings.
  const Factors f{.rate = static_cast<float>(p.v == nullptr ? learning_rate * scale : learning_rate),
                  .scale = static_cast<float>(scale),
                  .momentum = static_cast<float>(options.momentum),
                  // lr * weight_decay, not 1 - lr * weight_decay, which loses too many digits in f32.
                  .decay = static_cast<float>(learning_rate * options.weight_decay)};
  if (first + N <= p.count) {
    any_step<N>(p, f, first);
  } else {
    for (int64_t i = first; i < p.count; ++i) any_step<1>(p, f, i);
  }
}

}  // namespace

void sgd_step(Context&, const optim::SgdStep& p) {
  const Elements span{.weights = elements<float>(p.weights),
                      .v = elements<float>(p.v),
                      .copies = elements<__nv_bfloat16>(p.copies),
                      .gradients = elements<float>(p.gradients),
                      .count = p.weights.shape.numel()};
  if (span.count == 0) return;
  const bool wide = can_move<kWidth>(0, span.weights, span.v, span.copies, span.gradients);
  launch(wide ? sgd_kernel<kWidth> : sgd_kernel<1>, {blocks_for(span.count, kThreads * (wide ? kWidth : 1)), kThreads},
         span, {.scalars = p.scalars, .momentum = p.momentum, .weight_decay = p.weight_decay});
}

}  // namespace heed::cuda
