// One pass over average and weights: 8 bytes read and 4 written per f32 parameter, memory-bound. Each element is
// computed independently, so the bits do not depend on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/weight_average_cpu.cpp"
#include <hwy/foreach_target.h>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "optim/weight_average.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

template <class T>
void weight_average_typed(const optim::WeightAverageStep& p, int64_t begin, int64_t end) {
  const hn::ScalableTag<T> d;
  const auto rate = hn::Set(d, static_cast<T>(optim::weight_average_rate(p.decay, p.scalars.optimizer_step.get())));
  const T* weights = p.weights.as<T>() + begin;
  T* average = p.average.as<T>() + begin;
  for_each_vector(d, end - begin, [&](int64_t, auto load, auto store) HWY_ATTR {
    const auto mean = load(average);
    store(hn::MulAdd(rate, hn::Sub(load(weights), mean), mean), average);
  });
}

void weight_average_range(const optim::WeightAverageStep& p, int64_t begin, int64_t end) {
  visit_accumulation(p.average.dtype, [&](auto zero) { weight_average_typed<decltype(zero)>(p, begin, end); });
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(weight_average_range);

void weight_average_step(Context&, const optim::WeightAverageStep& p) {
  if (p.scalars.is_valid.get() == 0) return;
  parallel_for(p.average.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(weight_average_range)(p, begin, end);
  });
}

}  // namespace heed::cpu
#endif
