// One pass over gradients and m: 8 bytes read and 8 written per f32 parameter, memory-bound. Each element is computed
// independently, so the bits do not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/muon_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "optim/muon.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class T>
void muon_typed(const optim::MuonMomentum& p, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const auto scale = hn::Set(d, static_cast<T>(p.scalars.gradient_scale.get()));
  const auto rate = hn::Set(d, static_cast<T>(1 - p.momentum));
  const T* gradients = p.gradients.as<T>() + begin;
  T* m = p.m.as<T>() + begin;
  T* update = p.update.as<T>() + begin;
  for_each_vector(d, end - begin, [&](int64_t, auto load, auto store) HWY_ATTR {
    // m + rate * (g - m), as in adamw_cpu.cpp
    const auto average = [&](auto mean, auto value)
                             HWY_ATTR { return hn::MulAdd(rate, value, hn::NegMulAdd(rate, mean, mean)); };
    const auto g = hn::Mul(load(gradients), scale);
    const auto new_m = average(load(m), g);
    store(new_m, m);
    store(average(new_m, g), update);
  });
}

void muon_range(const optim::MuonMomentum& p, int64_t begin, int64_t end) {
  visit_accumulation(p.m.dtype, [&](auto zero) { muon_typed<decltype(zero)>(p, begin, end); });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(muon_range);

void muon_momentum(Context&, const optim::MuonMomentum& p) {
  if (p.scalars.is_valid.get() == 0) return fill_zero(p.update);
  parallel_for(p.m.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(muon_range)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
