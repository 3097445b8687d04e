// One pass over memory; threads process whole rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/gated_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/activation.hpp"
#include "autograd/cpu/gelu.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/gated.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// Function<D>: Silu or Gelu.
template <class T, template <class> class Function>
void gate_row(const GatedForward& p, int64_t row) {
  const hn::ScalableTag<AccumT<T>> d;
  const int64_t columns = p.y.shape.columns();
  const T *gate = p.h.as<T>() + row * 2 * columns, *up = gate + columns;
  T* y = p.y.as<T>() + row * columns;
  for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
    const Function<decltype(d)> function(d, load(gate));
    store(hn::Mul(function.value(), load(up)), y);
  });
}

template <class T, template <class> class Function>
void differentiate_row(const GatedBackward& p, int64_t row) {
  const hn::ScalableTag<AccumT<T>> d;
  const int64_t columns = p.dy.shape.columns();
  const T *gate = p.h.as<T>() + row * 2 * columns, *up = gate + columns;
  const T* dy = p.dy.as<T>() + row * columns;
  T *dgate = p.dh.ref.as<T>() + row * 2 * columns, *dup = dgate + columns;
  for_each_vector(d, columns, [&](int64_t, auto load, auto store) HWY_ATTR {
    const Function<decltype(d)> function(d, load(gate));
    const auto dout = load(dy);
    const auto to_gate = hn::Mul(hn::Mul(dout, load(up)), function.derivative(d));
    const auto to_up = hn::Mul(dout, function.value());
    store(p.dh.add ? hn::Add(load(dgate), to_gate) : to_gate, dgate);
    store(p.dh.add ? hn::Add(load(dup), to_up) : to_up, dup);
  });
}

void gate_rows(const GatedForward& p, int64_t begin, int64_t end) {
  visit_floating(p.h.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = begin; row < end; ++row) {
      p.gate == Gate::silu ? gate_row<T, Silu>(p, row) : gate_row<T, Gelu>(p, row);
    }
  });
}

void differentiate_rows(const GatedBackward& p, int64_t begin, int64_t end) {
  visit_floating(p.h.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t row = begin; row < end; ++row) {
      p.gate == Gate::silu ? differentiate_row<T, Silu>(p, row) : differentiate_row<T, Gelu>(p, row);
    }
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {
namespace {

HWY_EXPORT(gate_rows);
HWY_EXPORT(differentiate_rows);

template <class P>
void over_rows(const Shape& h, const P& p, void (*rows)(const P&, int64_t, int64_t)) {
  if (h.numel() == 0) return;
  parallel_for(h.rows(), ceil_divide(kElementwiseGrain, h.columns()),
               [&](int64_t begin, int64_t end) { rows(p, begin, end); });
}

}  // namespace

void gated_forward(Context&, const GatedForward& p) { over_rows(p.h.shape, p, HWY_DYNAMIC_DISPATCH(gate_rows)); }
void gated_backward(Context&, const GatedBackward& p) {
  if (p.dh) over_rows(p.h.shape, p, HWY_DYNAMIC_DISPATCH(differentiate_rows));
}

}  // namespace heed::cpu
#endif
