// One pass over memory per operation; each thread computes ranges of elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/elementwise_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/activation.hpp"
#include "autograd/cpu/gelu.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/elementwise.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// out[i] = value(…), or += if out.add, for elements [begin, end). value(d, read) returns a vector of results;
// read(tensor) loads the vector of that tensor's elements at the same place.
template <class Value>
HWY_INLINE void write(const GradientSink& out, int64_t begin, int64_t end, Value&& value) {
  visit_floating(out.ref.dtype, [&](auto zero) HWY_ATTR {
    using T = decltype(zero);
    const hn::ScalableTag<AccumT<T>> d;
    T* y = out.ref.as<T>() + begin;
    for_each_vector(d, end - begin, [&](int64_t, auto load, auto store) HWY_ATTR {
      const auto v =
          value(d, [&](const ConstTensorRef& x) HWY_ATTR { return load(static_cast<const T*>(x.data) + begin); });
      store(out.add ? hn::Add(load(y), v) : v, y);
    });
  });
}

void subtract_range(const Binary& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto, auto read) HWY_ATTR { return hn::Sub(read(p.a), read(p.b)); });
}

void multiply_range(const Binary& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto, auto read) HWY_ATTR { return hn::Mul(read(p.a), read(p.b)); });
}

void divide_range(const Binary& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto, auto read) HWY_ATTR { return hn::Div(read(p.a), read(p.b)); });
}

// Not a / b^2: the square of a large b overflows.
void div_backward_range(const DivBackward& p, int64_t begin, int64_t end) {
  write(p.db, begin, end, [&](auto, auto read) HWY_ATTR {
    const auto b = read(p.b);
    return hn::Neg(hn::Mul(read(p.dy), hn::Div(hn::Div(read(p.a), b), b)));
  });
}

void multiply_by_range(const WithScalar& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto d, auto read) HWY_ATTR {
    using T = hn::TFromD<decltype(d)>;
    return hn::Mul(read(p.x), hn::Set(d, static_cast<T>(p.scalar)));
  });
}

void add_scalar_range(const WithScalar& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto d, auto read) HWY_ATTR {
    using T = hn::TFromD<decltype(d)>;
    return hn::Add(read(p.x), hn::Set(d, static_cast<T>(p.scalar)));
  });
}

void gelu_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return Gelu(d, read(p.x)).value(); });
}

void gelu_backward_range(const ActivationBackward& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end,
        [&](auto d, auto read) HWY_ATTR { return hn::Mul(read(p.dy), Gelu(d, read(p.x)).derivative(d)); });
}

void gelu_erf_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return GeluErf(d, read(p.x)).value(); });
}

void gelu_erf_backward_range(const ActivationBackward& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end,
        [&](auto d, auto read) HWY_ATTR { return hn::Mul(read(p.dy), GeluErf(d, read(p.x)).derivative(d)); });
}

void silu_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return Silu(d, read(p.x)).value(); });
}

void silu_backward_range(const ActivationBackward& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end,
        [&](auto d, auto read) HWY_ATTR { return hn::Mul(read(p.dy), Silu(d, read(p.x)).derivative(d)); });
}

void relu_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR {
    const auto x = read(p.x);
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), x);  // a NaN is not <= 0
  });
}

void relu_backward_range(const ActivationBackward& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end, [&](auto d, auto read) HWY_ATTR {
    const auto x = read(p.x);
    const auto dx = hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), read(p.dy));
    return hn::IfThenElse(hn::IsNaN(x), x, dx);
  });
}

void relu2_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR {
    const auto x = read(p.x);
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), hn::Mul(x, x));
  });
}

void relu2_backward_range(const ActivationBackward& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end, [&](auto d, auto read) HWY_ATTR {
    const auto x = read(p.x);
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), hn::Mul(read(p.dy), hn::Add(x, x)));
  });
}

void tanh_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return Tanh(d, read(p.x)); });
}

void tanh_backward_range(const BackwardFromResult& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end, [&](auto d, auto read) HWY_ATTR {
    const auto y = read(p.y), one = hn::Set(d, hn::TFromD<decltype(d)>(1));
    return hn::Mul(read(p.dy), hn::NegMulAdd(y, y, one));
  });
}

void softcap_range(const WithScalar& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto d, auto read) HWY_ATTR {
    const auto cap = hn::Set(d, static_cast<hn::TFromD<decltype(d)>>(p.scalar));
    return hn::Mul(cap, Tanh(d, hn::Div(read(p.x), cap)));
  });
}

void softcap_backward_range(const SoftcapBackward& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end, [&](auto d, auto read) HWY_ATTR {
    using T = hn::TFromD<decltype(d)>;
    const auto tanh = hn::Div(read(p.y), hn::Set(d, static_cast<T>(p.cap)));
    return hn::Mul(read(p.dy), hn::NegMulAdd(tanh, tanh, hn::Set(d, T(1))));
  });
}

void sigmoid_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return Sigmoid(d, read(p.x)); });
}

void sigmoid_backward_range(const BackwardFromResult& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end, [&](auto, auto read) HWY_ATTR {
    const auto y = read(p.y);
    return hn::Mul(read(p.dy), hn::NegMulAdd(y, y, y));
  });
}

void exp_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return Exp(d, read(p.x)); });
}

void log_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return Log(d, read(p.x)); });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(subtract_range);
HWY_EXPORT(multiply_range);
HWY_EXPORT(divide_range);
HWY_EXPORT(div_backward_range);
HWY_EXPORT(multiply_by_range);
HWY_EXPORT(add_scalar_range);
HWY_EXPORT(gelu_range);
HWY_EXPORT(gelu_backward_range);
HWY_EXPORT(gelu_erf_range);
HWY_EXPORT(gelu_erf_backward_range);
HWY_EXPORT(silu_range);
HWY_EXPORT(silu_backward_range);
HWY_EXPORT(relu_range);
HWY_EXPORT(relu_backward_range);
HWY_EXPORT(relu2_range);
HWY_EXPORT(relu2_backward_range);
HWY_EXPORT(tanh_range);
HWY_EXPORT(tanh_backward_range);
HWY_EXPORT(softcap_range);
HWY_EXPORT(softcap_backward_range);
HWY_EXPORT(sigmoid_range);
HWY_EXPORT(sigmoid_backward_range);
HWY_EXPORT(exp_range);
HWY_EXPORT(log_range);

// Nothing is computed for a gradient that is not needed.
template <class P>
void over_elements(const GradientSink& out, const P& p, void (*range)(const P&, int64_t, int64_t)) {
  if (!out) return;
  parallel_for(out.ref.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) { range(p, begin, end); });
}

}  // namespace

void subtract(Context&, const Binary& p) { over_elements(p.y, p, HWY_DYNAMIC_DISPATCH(subtract_range)); }
void multiply(Context&, const Binary& p) { over_elements(p.y, p, HWY_DYNAMIC_DISPATCH(multiply_range)); }
void divide(Context&, const Binary& p) { over_elements(p.y, p, HWY_DYNAMIC_DISPATCH(divide_range)); }
void div_backward(Context&, const DivBackward& p) { over_elements(p.db, p, HWY_DYNAMIC_DISPATCH(div_backward_range)); }
void multiply_by(Context&, const WithScalar& p) { over_elements(p.y, p, HWY_DYNAMIC_DISPATCH(multiply_by_range)); }
void add_scalar(Context&, const WithScalar& p) { over_elements(p.y, p, HWY_DYNAMIC_DISPATCH(add_scalar_range)); }
void gelu_forward(Context&, const ActivationForward& p) { over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(gelu_range)); }
void gelu_backward(Context&, const ActivationBackward& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(gelu_backward_range));
}
void gelu_erf_forward(Context&, const ActivationForward& p) {
  over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(gelu_erf_range));
}
void gelu_erf_backward(Context&, const ActivationBackward& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(gelu_erf_backward_range));
}
void silu_forward(Context&, const ActivationForward& p) { over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(silu_range)); }
void silu_backward(Context&, const ActivationBackward& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(silu_backward_range));
}
void relu_forward(Context&, const ActivationForward& p) { over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(relu_range)); }
void relu_backward(Context&, const ActivationBackward& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(relu_backward_range));
}
void relu2_forward(Context&, const ActivationForward& p) { over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(relu2_range)); }
void relu2_backward(Context&, const ActivationBackward& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(relu2_backward_range));
}
void tanh_forward(Context&, const ActivationForward& p) { over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(tanh_range)); }
void tanh_backward(Context&, const BackwardFromResult& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(tanh_backward_range));
}
void softcap_forward(Context&, const WithScalar& p) { over_elements(p.y, p, HWY_DYNAMIC_DISPATCH(softcap_range)); }
void softcap_backward(Context&, const SoftcapBackward& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(softcap_backward_range));
}
void sigmoid_forward(Context&, const ActivationForward& p) {
  over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(sigmoid_range));
}
void sigmoid_backward(Context&, const BackwardFromResult& p) {
  over_elements(p.dx, p, HWY_DYNAMIC_DISPATCH(sigmoid_backward_range));
}
void exp_forward(Context&, const ActivationForward& p) { over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(exp_range)); }
void log_forward(Context&, const ActivationForward& p) { over_elements({p.y}, p, HWY_DYNAMIC_DISPATCH(log_range)); }

}  // namespace heed::cpu
#endif
