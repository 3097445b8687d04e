#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/cpu/accumulate.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "autograd/core/accumulate.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class A, class B>
void add_typed(const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b, int64_t begin, int64_t end) {
  const hn::ScalableTag<AccumT<A>> d;
  const A* pa = a.as<A>() + begin;
  const B* pb = b.as<B>() + begin;
  A* ps = sum.as<A>() + begin;
  for_each_vector(d, end - begin,
                  [&](int64_t, auto load, auto store) HWY_ATTR { store(hn::Add(load(pa), load(pb)), ps); });
}
void add_range(const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b, int64_t begin, int64_t end) {
  visit_floating(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Other =
        std::conditional_t<std::is_same_v<T, Bf16>, float, std::conditional_t<std::is_same_v<T, float>, Bf16, T>>;
    a.dtype == b.dtype ? add_typed<T, T>(sum, a, b, begin, end) : add_typed<T, Other>(sum, a, b, begin, end);
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(add_range);

void add(Context&, const TensorRef& sum, const ConstTensorRef& a, const ConstTensorRef& b) {
  parallel_for(sum.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(add_range)(sum, a, b, begin, end);
  });
}

void accumulate(Context& context, const TensorRef& y, const ConstTensorRef& x) { add(context, y, y, x); }

void set_all(Context&, const TensorRef& y, double value) {
  visit_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::fill_n(y.as<T>(), y.shape.numel(), static_cast<T>(value));
  });
}

}  // namespace heed::cpu
#endif
