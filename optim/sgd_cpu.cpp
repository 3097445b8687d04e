// One pass over weights and gradients: 8 bytes read and 4 written per f32 parameter, with momentum 12 and 8,
// memory-bound. Each element is computed independently, so the bits do not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/sgd_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "optim/sgd.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class V, class Store, class T>
HWY_INLINE void store_weights(V w, const Store& store, T* weights, Bf16* copies) {
  store(w, weights);
  if constexpr (std::is_same_v<T, float>) {
    if (copies != nullptr) store(w, copies);
  }
}

template <class T>
void sgd_typed(const optim::SgdStep& p, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const double learning_rate = p.scalars.rate();
  const auto rate = hn::Set(d, static_cast<T>(learning_rate * p.scalars.gradient_scale.get()));
  // lr * weight_decay, not 1 - lr * weight_decay, which loses too many digits in f32.
  const auto decay = hn::Set(d, static_cast<T>(learning_rate * p.weight_decay));
  const T* gradients = p.gradients.as<T>() + begin;
  T* weights = p.weights.as<T>() + begin;
  Bf16* copies = p.copies ? p.copies.as<Bf16>() + begin : nullptr;
  for_each_vector(d, end - begin, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto w = load(weights);
    store_weights(hn::Sub(w, hn::MulAdd(decay, w, hn::Mul(rate, load(gradients)))), store, weights, copies);
  });
}

template <class T>
void momentum_typed(const optim::SgdStep& p, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const auto set = [&](double value) HWY_ATTR { return hn::Set(d, static_cast<T>(value)); };
  const double learning_rate = p.scalars.rate();
  const auto rate = set(learning_rate), scale = set(p.scalars.gradient_scale.get()), momentum = set(p.momentum);
  const auto decay = set(learning_rate * p.weight_decay);
  const T* gradients = p.gradients.as<T>() + begin;
  T* weights = p.weights.as<T>() + begin;
  T* v = p.v.as<T>() + begin;
  Bf16* copies = p.copies ? p.copies.as<Bf16>() + begin : nullptr;
  for_each_vector(d, end - begin, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto new_v = hn::MulAdd(momentum, load(v), hn::Mul(scale, load(gradients)));
    const auto w = load(weights);
    store(new_v, v);
    store_weights(hn::Sub(w, hn::MulAdd(decay, w, hn::Mul(rate, new_v))), store, weights, copies);
  });
}

void sgd_range(const optim::SgdStep& p, int64_t begin, int64_t end) {
  visit_accumulation(p.weights.dtype, [&](auto zero) {
    using T = decltype(zero);
    p.v ? momentum_typed<T>(p, begin, end) : sgd_typed<T>(p, begin, end);
  });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(sgd_range);

void sgd_step(Context&, const optim::SgdStep& p) {
  if (p.scalars.is_valid.get() == 0) return;
  parallel_for(p.weights.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sgd_range)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
