// One pass over memory per operation; each thread computes ranges of elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/elementwise_cpu.cpp"
#include <hwy/foreach_target.h>

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

void multiply_range(const Product& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto, auto read) HWY_ATTR { return hn::Mul(read(p.a), read(p.b)); });
}

void multiply_by_range(const Scaled& p, int64_t begin, int64_t end) {
  write(p.y, begin, end, [&](auto d, auto read) HWY_ATTR {
    using T = hn::TFromD<decltype(d)>;
    return hn::Mul(read(p.x), hn::Set(d, static_cast<T>(p.factor)));
  });
}

void gelu_range(const ActivationForward& p, int64_t begin, int64_t end) {
  write({p.y}, begin, end, [&](auto d, auto read) HWY_ATTR { return Gelu(d, read(p.x)).value(); });
}

void gelu_backward_range(const ActivationBackward& p, int64_t begin, int64_t end) {
  write(p.dx, begin, end,
        [&](auto d, auto read) HWY_ATTR { return hn::Mul(read(p.dy), Gelu(d, read(p.x)).derivative(d)); });
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

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(multiply_range);
HWY_EXPORT(multiply_by_range);
HWY_EXPORT(gelu_range);
HWY_EXPORT(gelu_backward_range);
HWY_EXPORT(relu_range);
HWY_EXPORT(relu_backward_range);

template <class P>
void over_elements(int64_t n, const P& p, void (*range)(const P&, int64_t, int64_t)) {
  parallel_for(n, kElementwiseGrain, [&](int64_t begin, int64_t end) { range(p, begin, end); });
}

}  // namespace

void multiply(Context&, const Product& p) {
  if (p.y) over_elements(p.a.shape.numel(), p, HWY_DYNAMIC_DISPATCH(multiply_range));
}
void multiply_by(Context&, const Scaled& p) {
  if (p.y) over_elements(p.x.shape.numel(), p, HWY_DYNAMIC_DISPATCH(multiply_by_range));
}
void gelu_forward(Context&, const ActivationForward& p) {
  over_elements(p.x.shape.numel(), p, HWY_DYNAMIC_DISPATCH(gelu_range));
}
void gelu_backward(Context&, const ActivationBackward& p) {
  if (p.dx) over_elements(p.x.shape.numel(), p, HWY_DYNAMIC_DISPATCH(gelu_backward_range));
}
void relu_forward(Context&, const ActivationForward& p) {
  over_elements(p.x.shape.numel(), p, HWY_DYNAMIC_DISPATCH(relu_range));
}
void relu_backward(Context&, const ActivationBackward& p) {
  if (p.dx) over_elements(p.x.shape.numel(), p, HWY_DYNAMIC_DISPATCH(relu_backward_range));
}

}  // namespace heed::cpu
#endif
