// Activation functions and their gradients as functors, for elementwise.cuh: F{}(x) and FGradient{}(dy, x). The
// formulas are in ops/elementwise.hpp. NaN propagates. The template parameter T of GELU is the dtype in memory.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <type_traits>

namespace heed::cuda {

constexpr float kTwoRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

// min(x^2, 30^2): sigmoid(2u) reaches 0 or 1 long before, so the bound only keeps u and u' from overflowing for large
// x. NaN stays NaN.
__device__ inline float bounded_square(float x) {
  const float square = x * x;
  return square > 900.0f ? 900.0f : square;
}
// T: the dtype in memory. For bf16, __expf is exact enough: its relative error grows with the argument, but only to
// 1e-5, far below the rounding error of bf16.
template <class T>
__device__ inline float gelu_gate(float x, float square) {
  const float argument = -x * (square * (kTwoRoot * kCubic) + kTwoRoot);
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __fdividef(1.0f, 1.0f + __expf(argument));
  } else {
    return 1.0f / (1.0f + expf(argument));
  }
}

template <class T>
struct Gelu {
  __device__ float operator()(float x) const { return x * gelu_gate<T>(x, bounded_square(x)); }
};
template <class T>
struct GeluGradient {
  __device__ float operator()(float dy, float x) const {
    const float square = bounded_square(x), gate = gelu_gate<T>(x, square);
    const float slope = (gate - gate * gate) * (square * (kTwoRoot * 3 * kCubic) + kTwoRoot);
    return dy * (x * slope + gate);
  }
};
// Phi(x) by erfc, which keeps its digits where Phi is small.
__device__ inline float normal_distribution(float x) { return 0.5f * erfcf(-0.70710678f * x); }
struct GeluErf {
  __device__ float operator()(float x) const { return x * normal_distribution(x); }
};
struct GeluErfGradient {
  __device__ float operator()(float dy, float x) const {
    const float density = 0.39894228f * expf(-0.5f * x * x);  // 1 / sqrt(2 pi) = 0.39894228
    return dy * (x * density + normal_distribution(x));
  }
};
struct Silu {
  __device__ float operator()(float x) const { return x / (1.0f + expf(-x)); }
};
struct SiluGradient {
  __device__ float operator()(float dy, float x) const {
    const float s = 1.0f / (1.0f + expf(-x)), y = x * s;
    return dy * (s + (y - y * s));
  }
};
struct Relu {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x; }  // a NaN is not <= 0
};
struct ReluGradient {
  __device__ float operator()(float dy, float x) const { return x > 0 ? dy : x <= 0 ? 0.0f : x; }
};
struct Relu2 {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x * x; }
};
struct Relu2Gradient {
  __device__ float operator()(float dy, float x) const { return x <= 0 ? 0.0f : 2.0f * x * dy; }
};

}  // namespace heed::cuda
