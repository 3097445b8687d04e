// Online softmax in base 2: scores are in units of log 2, so a probability is a power of 2.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <numbers>

namespace heed::cuda {

// 2^x, relative error 2^-22; 0 below the smallest normal number. NaN returns NaN, -Inf returns 0. One instruction;
// exp2f() needs four, to preserve denormals.
__device__ __forceinline__ float power_of_2(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x < -126.0f ? 0.0f : exp2f(x);
#endif
}

// Online softmax of a row whose scores arrive tile by tile.
struct OnlineSoftmax {
  float maximum = -INFINITY, sum = 0;

  // Updates the running maximum to `highest`, the fmaxf() of `maximum` and the scores of the next tile (fmaxf() ignores
  // NaN, which propagates through the probabilities instead). Returns the factor that rescales everything summed
  // before.
  __device__ __forceinline__ float raise(float highest) {
    const float before = maximum;
    maximum = highest;
    const float factor = power_of_2(before - base());
    sum *= factor;
    return factor;
  }
  // The value to subtract from scores. If all scores so far are -Inf, score - maximum would be NaN.
  __device__ __forceinline__ float base() const { return maximum == -INFINITY ? 0.0f : maximum; }
  // The log-sum-exp of the row, natural logarithm; total: `sum` over all lanes of the row.
  __device__ __forceinline__ float log_sum(float total) const {
    return maximum * static_cast<float>(std::numbers::ln2) + logf(total);
  }
};

constexpr float kLog2E = static_cast<float>(std::numbers::log2e);

}  // namespace heed::cuda
