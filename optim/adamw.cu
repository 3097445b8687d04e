// One pass over weights, gradients, m and v: 16 bytes read and 12 written per parameter, 14 written with a bf16 copy;
// memory-bound.
//
// Threads: thread blocks of 256; each thread processes 4 adjacent elements. Each element is computed independently: the
// bits do not depend on the order.
#include "optim/adamw.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256, kWidth = 4;

struct Options {
  optim::StepScalars scalars;
  double beta1, beta2, eps, weight_decay;
};
struct Factors {
  float scale, eps, rate1, rate2, rate, root_scale, decay;

  __device__ explicit Factors(const Options& p)
      : scale(static_cast<float>(p.scalars.gradient_scale.get())),
        eps(static_cast<float>(p.eps)),
        rate1(static_cast<float>(1 - p.beta1)),
        rate2(static_cast<float>(1 - p.beta2)),
        rate(static_cast<float>(p.scalars.rate() / p.scalars.bias_correction.get().first)),
        root_scale(static_cast<float>(p.scalars.bias_correction.get().inverse_root_second)),
        // lr * weight_decay, not 1 - lr * weight_decay, which loses too many digits in f32.
        decay(static_cast<float>(p.scalars.rate() * p.weight_decay)) {}
};

// average + rate * (value - average), written so that neither a rate near 0 nor a rate of 1 loses digits.
__device__ __forceinline__ float moved_average(float average, float rate, float value) {
  return fmaf(rate, value, fmaf(-rate, average, average));
}

struct Elements {
  float *weights, *m, *v;
  __nv_bfloat16* copies;  // nullptr without copies
  const float* gradients;
  int64_t count;
};

template <int N>
__device__ __forceinline__ void step(const Elements& p, const Factors& f, int64_t first) {
  const Floats<N> gradients = load<N>(p.gradients + first);
  Floats<N> w = load<N>(p.weights + first), m = load<N>(p.m + first), v = load<N>(p.v + first);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = gradients.value[i] * f.scale;
    m.value[i] = moved_average(m.value[i], f.rate1, g);
    v.value[i] = moved_average(v.value[i], f.rate2, g * g);
    const float move = f.rate * m.value[i] / fmaf(sqrtf(v.value[i]), f.root_scale, f.eps);
    w.value[i] -= fmaf(f.decay, w.value[i], move);
  }
  store<N>(p.m + first, m);
  store<N>(p.v + first, v);
  store<N>(p.weights + first, w);
  if (p.copies != nullptr) store<N>(p.copies + first, w);
}

template <int N>
__global__ void __launch_bounds__(kThreads) adamw_kernel(Elements p, Options options) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (options.scalars.is_valid.get() == 0) return;
  const Factors f(options);
  if (first + N <= p.count) {
    step<N>(p, f, first);
  } else {
    for (int64_t i = first; i < p.count; ++i) step<1>(p, f, i);
  }
}

}  // namespace

void adamw_step(Context&, const optim::AdamWStep& p) {
  const Elements span{.weights = elements<float>(p.weights),
                      .m = elements<float>(p.m),
                      .v = elements<float>(p.v),
                      .copies = elements<__nv_bfloat16>(p.copies),
                      .gradients = elements<float>(p.gradients),
                      .count = p.weights.shape.numel()};
  if (span.count == 0) return;
  const bool wide = can_move<kWidth>(0, span.weights, span.m, span.v, span.copies, span.gradients);
  launch(wide ? adamw_kernel<kWidth> : adamw_kernel<1>,
         {blocks_for(span.count, kThreads * (wide ? kWidth : 1)), kThreads}, span,
         {.scalars = p.scalars, .beta1 = p.beta1, .beta2 = p.beta2, .eps = p.eps, .weight_decay = p.weight_decay});
}

}  // namespace heed::cuda
