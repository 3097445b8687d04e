// One pass over memory per operation (cuda/elementwise.cuh). Per f32 element (half of it for bf16), mul and the
// backward of gelu and relu read 8 bytes and write 4, the others read 4 and write 4; an output that is accumulated into
// is also read. All are memory-bound: gelu has about 20 operations per element.
#include "autograd/ops/elementwise.hpp"

#include "autograd/cuda/elementwise.cuh"

namespace heed::cuda {
namespace {

constexpr float kTwoRoot = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

// min(x^2, 30^2): sigmoid(2u) reaches 0 or 1 long before, so the bound only keeps u and u' from overflowing for large
// x. NaN stays NaN.
__device__ float bounded_square(float x) {
  const float square = x * x;
  return square > 900.0f ? 900.0f : square;
}
__device__ float gelu_gate(float x, float square) {
  return 1.0f / (1.0f + expf(-x * (square * (kTwoRoot * kCubic) + kTwoRoot)));
}

struct Times {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct TimesFactor {
  float factor;
  __device__ float operator()(float x) const { return factor * x; }
};
struct Gelu {
  __device__ float operator()(float x) const { return x * gelu_gate(x, bounded_square(x)); }
};
struct GeluGradient {
  __device__ float operator()(float dy, float x) const {
    const float square = bounded_square(x), gate = gelu_gate(x, square);
    const float slope = (gate - gate * gate) * (square * (kTwoRoot * 3 * kCubic) + kTwoRoot);
    return dy * (x * slope + gate);
  }
};
struct Relu {
  __device__ float operator()(float x) const { return x <= 0 ? 0.0f : x; }  // a NaN is not <= 0
};
struct ReluGradient {
  __device__ float operator()(float dy, float x) const { return x > 0 ? dy : x <= 0 ? 0.0f : x; }
};

template <class F>
void activation(const char* name, const ActivationForward& p, F f) {
  visit_elements(name, p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise_into<T>({p.y}, f, elements<T>(p.x));
  });
}
template <class F>
void activation(const char* name, const ActivationBackward& p, F f) {
  visit_elements(name, p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise_into<T>(p.dx, f, elements<T>(p.dy), elements<T>(p.x));
  });
}

}  // namespace

void multiply(Context&, const Product& p) {
  visit_elements("mul", p.a.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise_into<T>(p.y, Times{}, elements<T>(p.a), elements<T>(p.b));
  });
}
void multiply_by(Context&, const Scaled& p) {
  visit_elements("scale", p.x.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise_into<T>(p.y, TimesFactor{static_cast<float>(p.factor)}, elements<T>(p.x));
  });
}
void gelu_forward(Context&, const ActivationForward& p) { activation("gelu", p, Gelu{}); }
void gelu_backward(Context&, const ActivationBackward& p) { activation("gelu", p, GeluGradient{}); }
void relu_forward(Context&, const ActivationForward& p) { activation("relu", p, Relu{}); }
void relu_backward(Context&, const ActivationBackward& p) { activation("relu", p, ReluGradient{}); }

}  // namespace heed::cuda
