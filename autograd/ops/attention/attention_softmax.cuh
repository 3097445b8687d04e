// What makes weights of scores. Scores are in units of log 2, so a weight is a power of 2.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <numbers>

namespace heed::cuda {

// 2^x, relative error 2^-22; 0 below the smallest normal number. NaN gives NaN, -Inf gives 0. One instruction, where
// exp2f() takes four, to keep what is no normal number.
__device__ __forceinline__ float power_of_2(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return x < -126.0f ? 0.0f : exp2f(x);
#endif
}

// The softmax of a row whose scores come piece by piece.
struct OnlineSoftmax {
  float maximum = -INFINITY, sum = 0;

  // Takes in the largest score of the next piece (fmaxf() of scores and `maximum`: it passes over NaN, which shows in
  // the weights instead). What was summed before has to be multiplied by the result.
  __device__ __forceinline__ float raise(float highest) {
    const float before = maximum;
    maximum = highest;
    const float factor = power_of_2(before - base());
    sum *= factor;
    return factor;
  }
  // What is subtracted from scores. Where all of them are -Inf so far, differences to the maximum would be NaN.
  __device__ __forceinline__ float base() const { return maximum == -INFINITY ? 0.0f : maximum; }
  // Natural, for the sum over all lanes.
  __device__ __forceinline__ float log_sum(float total) const {
    return maximum * static_cast<float>(std::numbers::ln2) + logf(total);
  }
};

constexpr float kLog2E = static_cast<float>(std::numbers::log2e);

}  // namespace heed::cuda
