// One pass over gradients and m: 8 bytes read and 8 written per parameter, memory-bound.
//
// Threads: thread blocks of 256, one thread per element. Each element is computed independently: the bits do not depend
// on the order.
#include "optim/muon.hpp"

#include "autograd/cuda/element.cuh"
#include "autograd/cuda/launch.cuh"

namespace heed::cuda {
namespace {

constexpr int kThreads = 256;

struct Elements {
  float *m, *update;
  const float* gradients;
  int64_t count;
};

__global__ void __launch_bounds__(kThreads) muon_momentum_kernel(Elements p, optim::StepScalars scalars, float rate) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.count) return;
  if (scalars.is_valid.get() == 0) {
    p.update[i] = 0;
    return;
  }
  // m + rate * (g - m), as in adamw.cu
  const auto average = [rate](float m, float g) { return fmaf(rate, g, fmaf(-rate, m, m)); };
  const float g = p.gradients[i] * static_cast<float>(scalars.gradient_scale.get());
  const float m = average(p.m[i], g);
  p.m[i] = m;
  p.update[i] = average(m, g);
}

}  // namespace

void muon_momentum(Context&, const optim::MuonMomentum& p) {
  const Elements pieces{.m = elements<float>(p.m),
                        .update = elements<float>(p.update),
                        .gradients = elements<float>(p.gradients),
                        .count = p.m.shape.numel()};
  launch(muon_momentum_kernel, {blocks_for(pieces.count, kThreads), kThreads}, pieces, p.scalars,
         static_cast<float>(1 - p.momentum));
}

}  // namespace heed::cuda
