// One pass over weights, gradients, m and v: 16 bytes read and 12 written per f32 parameter, 14 written with a bf16
// copy; memory-bound. Each element is computed independently, so the bits do not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/adamw_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "optim/adamw.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// average + rate * (value - average), written so that neither a rate near 0 nor a rate of 1 loses digits. In f32, 1 -
// beta = 0.001 and beta = 0.999 would not add up to 1, and value - average may round value away.
template <class V>
HWY_INLINE V moved_average(V average, V rate, V value) {
  return hn::MulAdd(rate, value, hn::NegMulAdd(rate, average, average));
}

template <class T>
void adamw_typed(const optim::AdamWStep& p, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const auto set = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<T>(value)); };
  const optim::BiasCorrection correction = p.scalars.bias_correction.get();
  const double learning_rate = p.scalars.rate();
  const auto scale = set(p.scalars.gradient_scale.get()), eps = set(p.eps);
  const auto rate1 = set(1 - p.beta1), rate2 = set(1 - p.beta2);
  const auto rate = set(learning_rate / correction.first), root_scale = set(correction.inverse_root_second);
  // lr * weight_decay, not 1 - lr * weight_decay, which loses too many digits in f32.
  const auto decay = set(learning_rate * p.weight_decay);
  const T* gradients = p.gradients.as<T>() + begin;
  T* weights = p.weights.as<T>() + begin;
  T* m = p.m.as<T>() + begin;
  T* v = p.v.as<T>() + begin;
  Bf16* copies = p.copies ? p.copies.as<Bf16>() + begin : nullptr;
  for_each_vector(d, end - begin, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto g = hn::Mul(load(gradients), scale);
    const auto new_m = moved_average(load(m), rate1, g);
    const auto new_v = moved_average(load(v), rate2, hn::Mul(g, g));
    const auto move = hn::Div(hn::Mul(rate, new_m), hn::MulAdd(hn::Sqrt(new_v), root_scale, eps));
    const auto w = load(weights);
    store(new_m, m);
    store(new_v, v);
    const auto new_w = hn::Sub(w, hn::MulAdd(decay, w, move));
    store(new_w, weights);
    if constexpr (std::is_same_v<T, float>) {
      if (copies != nullptr) store(new_w, copies);
    }
  });
}

void adamw_range(const optim::AdamWStep& p, int64_t begin, int64_t end) {
  visit_accumulation(p.weights.dtype, [&](auto zero) { adamw_typed<decltype(zero)>(p, begin, end); });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(adamw_range);

void adamw_step(Context&, const optim::AdamWStep& p) {
  if (p.scalars.is_valid.get() == 0) return;
  parallel_for(p.weights.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(adamw_range)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
