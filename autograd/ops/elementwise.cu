// One pass over memory per operation (cuda/elementwise.cuh). Per f32 element (half of it for bf16), sub, mul, div and
// the backward of activations read 8 bytes and write 4, db of div reads 12 and writes 4, the others read 4 and write 4;
// an output that is accumulated into is also read. All are memory-bound: gelu has about 20 operations per element.
#include "autograd/ops/elementwise.hpp"

#include "autograd/cuda/activation.cuh"
#include "autograd/cuda/elementwise.cuh"

namespace heed::cuda {
namespace {

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
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct TanhGradient {
  __device__ float operator()(float dy, float y) const { return dy * (1.0f - y * y); }
};
struct Softcap {
  float cap;
  __device__ float operator()(float x) const { return cap * tanhf(x / cap); }
};
struct SoftcapGradient {
  float cap;
  __device__ float operator()(float dy, float y) const {
    const float tanh = y / cap;
    return dy * (1.0f - tanh * tanh);
  }
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
// The same for a functor that is a template on the dtype in memory.
template <template <class> class F, class... Inputs>
void write_by_dtype(const char* name, const GradientSink& out, const Inputs&... inputs) {
  if (!out) return;
  visit_elements(name, out.ref.dtype, [&](auto zero) {
    using T = decltype(zero);
    elementwise_into<T>(out, F<T>{}, elements<T>(inputs)...);
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
void gelu_forward(Context&, const ActivationForward& p) { write_by_dtype<Gelu>("gelu", {p.y}, p.x); }
void gelu_backward(Context&, const ActivationBackward& p) { write_by_dtype<GeluGradient>("gelu", p.dx, p.dy, p.x); }
void gelu_erf_forward(Context&, const ActivationForward& p) { write("gelu_erf", {p.y}, GeluErf{}, p.x); }
void gelu_erf_backward(Context&, const ActivationBackward& p) { write("gelu_erf", p.dx, GeluErfGradient{}, p.dy, p.x); }
void silu_forward(Context&, const ActivationForward& p) { write("silu", {p.y}, Silu{}, p.x); }
void silu_backward(Context&, const ActivationBackward& p) { write("silu", p.dx, SiluGradient{}, p.dy, p.x); }
void relu_forward(Context&, const ActivationForward& p) { write("relu", {p.y}, Relu{}, p.x); }
void relu_backward(Context&, const ActivationBackward& p) { write("relu", p.dx, ReluGradient{}, p.dy, p.x); }
void relu2_forward(Context&, const ActivationForward& p) { write("relu2", {p.y}, Relu2{}, p.x); }
void relu2_backward(Context&, const ActivationBackward& p) { write("relu2", p.dx, Relu2Gradient{}, p.dy, p.x); }
void tanh_forward(Context&, const ActivationForward& p) { write("tanh", {p.y}, Tanh{}, p.x); }
void tanh_backward(Context&, const BackwardFromResult& p) { write("tanh", p.dx, TanhGradient{}, p.dy, p.y); }
void softcap_forward(Context&, const WithScalar& p) {
  write("softcap", p.y, Softcap{static_cast<float>(p.scalar)}, p.x);
}
void softcap_backward(Context&, const SoftcapBackward& p) {
  write("softcap", p.dx, SoftcapGradient{static_cast<float>(p.cap)}, p.dy, p.y);
}
void sigmoid_forward(Context&, const ActivationForward& p) { write("sigmoid", {p.y}, Sigmoid{}, p.x); }
void sigmoid_backward(Context&, const BackwardFromResult& p) { write("sigmoid", p.dx, SigmoidGradient{}, p.dy, p.y); }
void exp_forward(Context&, const ActivationForward& p) { write("exp", {p.y}, Exp{}, p.x); }
void log_forward(Context&, const ActivationForward& p) { write("log", {p.y}, Log{}, p.x); }

}  // namespace heed::cuda
