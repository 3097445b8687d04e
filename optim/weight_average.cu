// One pass over average and weights: 8 bytes read and 4 written per parameter, memory-bound.
//
// Threads: thread blocks of 256; each thread processes 4 adjacent elements. Each element is computed independently: the
// bits do not depend on the order.
#include "optim/weight_average.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256, kWidth = 4;

struct Elements {
  float* average;
  const float* weights;
  int64_t count;
};

template <int N>
__device__ __forceinline__ void step(const Elements& p, float rate, int64_t first) {
  const Floats<N> w = load<N>(p.weights + first);
  Floats<N> average = load<N>(p.average + first);
#pragma unroll
  for (int i = 0; i < N; ++i) average.value[i] = fmaf(rate, w.value[i] - average.value[i], average.value[i]);
  store<N>(p.average + first, average);
}

template <int N>
__global__ void __launch_bounds__(kThreads)
    weight_average_kernel(Elements p, optim::StepScalars scalars, double decay) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * N;
  if (scalars.is_valid.get() == 0) return;
  const auto rate = static_cast<float>(optim::weight_average_rate(decay, scalars.optimizer_step.get()));
  if (first + N <= p.count) {
    step<N>(p, rate, first);
  } else {
    for (int64_t i = first; i < p.count; ++i) step<1>(p, rate, i);
  }
}

}  // namespace

void weight_average_step(Context&, const optim::WeightAverageStep& p) {
  const Elements span{
      .average = elements<float>(p.average), .weights = elements<float>(p.weights), .count = p.average.shape.numel()};
  if (span.count == 0) return;
  const bool wide = can_move<kWidth>(0, span.average, span.weights);
  launch(wide ? weight_average_kernel<kWidth> : weight_average_kernel<1>,
         {blocks_for(span.count, kThreads * (wide ? kWidth : 1)), kThreads}, span, p.scalars, p.decay);
}

}  // namespace heed::cuda
