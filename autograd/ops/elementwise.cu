// One pass over memory per operation (cuda/elementwise.cuh). Per f32 element (half of it for bf16), sub, mul, div and
// the backward of activations read 8 bytes and write 4, db of div reads 12 and writes 4, the others read 4 and write 4;
// an output that is accumulated into is also read. All are memory-bound: gelu has about 20 operations per element.
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

struct Minus {
  __device__ float operator()(float a, float b) const { return a - b; }
};
struct Times {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct Over {
  __device__ float operator()(float a, float b) const { return a / b; }
};
struct DivGradient {  // not a / b^2: the square of a large b overflows
  __device__ float operator()(float dy, float a, float b) const { return -dy * (a / b / b); }
};
struct TimesScalar {
  float scalar;
  __device__ float operator()(float x) const { return scalar * x; }
};
struct PlusScalar {
  float scalar;
  __device__ float operator()(float x) const { return x + scalar; }
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

struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct TanhGradient {
  __device__ float operator()(float dy, float y) const { return dy * (1.0f - y * y); }
};
struct Sigmoid {
  __device__ float operator()(float x) const { return 1.0f / (1.0f + expf(-x)); }
};
struct SigmoidGradient {
  __device__ float operator()(float dy, float y) const { return dy * (y - y * y); }
};
struct Exp {
  __device__ float operator()(float x) const { return expf(x); }
};
struct Log {
  __device__ float operator()(float x) const { return logf(x); }
};

// out = f(inputs …), or += if out.add, for tensors of the same dtype. Nothing if out is not needed.
template <class F, class... Inputs>
void write(const char* name, const GradientSink& out, F f, const Inputs&... inputs) {
  if (!out) return;
  visit_elements(name, out.ref.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise_into<T>(out, f, elements<T>(inputs)...);
  });
}

}  // namespace

void subtract(Context&, const Binary& p) { write("sub", p.y, Minus{}, p.a, p.b); }
void multiply(Context&, const Binary& p) { write("mul", p.y, Times{}, p.a, p.b); }
void divide(Context&, const Binary& p) { write("div", p.y, Over{}, p.a, p.b); }
void div_backward(Context&, const DivBackward& p) { write("div", p.db, DivGradient{}, p.dy, p.a, p.b); }
void multiply_by(Context&, const WithScalar& p) { write("scale", p.y, TimesScalar{static_cast<float>(p.scalar)}, p.x); }
void add_scalar(Context&, const WithScalar& p) {
  write("add_scalar", p.y, PlusScalar{static_cast<float>(p.scalar)}, p.x);
}
void gelu_forward(Context&, const ActivationForward& p) { write("gelu", {p.y}, Gelu{}, p.x); }
void gelu_backward(Context&, const ActivationBackward& p) { write("gelu", p.dx, GeluGradient{}, p.dy, p.x); }
void relu_forward(Context&, const ActivationForward& p) { write("relu", {p.y}, Relu{}, p.x); }
void relu_backward(Context&, const ActivationBackward& p) { write("relu", p.dx, ReluGradient{}, p.dy, p.x); }
void tanh_forward(Context&, const ActivationForward& p) { write("tanh", {p.y}, Tanh{}, p.x); }
void tanh_backward(Context&, const BackwardFromResult& p) { write("tanh", p.dx, TanhGradient{}, p.dy, p.y); }
void sigmoid_forward(Context&, const ActivationForward& p) { write("sigmoid", {p.y}, Sigmoid{}, p.x); }
void sigmoid_backward(Context&, const BackwardFromResult& p) { write("sigmoid", p.dx, SigmoidGradient{}, p.dy, p.y); }
void exp_forward(Context&, const ActivationForward& p) { write("exp", {p.y}, Exp{}, p.x); }
void log_forward(Context&, const ActivationForward& p) { write("log", {p.y}, Log{}, p.x); }

}  // namespace heed::cuda
