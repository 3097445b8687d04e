// Threads sum whole chunks of kBlock elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/reduce_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/reduce.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

// Sums in f64, with four accumulators to hide the latency of the addition.
template <class T>
double sum_elements(const T* x, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<AccumT<T>, decltype(d)> narrow;
  const auto at = [&](int64_t i) HWY_ATTR {
    if constexpr (sizeof(T) == sizeof(double)) {
      return hn::LoadU(d, x + i);
    } else {
      return hn::PromoteTo(d, load_from(narrow, x + i));
    }
  };
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    sum0 = hn::Add(sum0, at(i));
    sum1 = hn::Add(sum1, at(i + lanes));
    sum2 = hn::Add(sum2, at(i + 2 * lanes));
    sum3 = hn::Add(sum3, at(i + 3 * lanes));
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < count; ++i) sum += static_cast<double>(x[i]);
  return sum;
}

double sum_range(const ConstTensorRef& x, int64_t begin, int64_t end) {
  return visit_floating(x.dtype, [&](auto zero) { return sum_elements(x.as<decltype(zero)>() + begin, end - begin); });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(sum_range);

void reduce_forward(Context& context, const ReduceForward& p) {
  constexpr int64_t kBlock = 4096;
  const int64_t count = p.x.shape.numel(), blocks = ceil_divide(count, kBlock);
  const Scratch<double> sums(context, blocks);
  parallel_for(blocks, kElementwiseGrain / kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      sums[block] = HWY_DYNAMIC_DISPATCH(sum_range)(p.x, block * kBlock, std::min((block + 1) * kBlock, count));
    }
  });
  double total = 0;
  for (int64_t block = 0; block < blocks; ++block) total += sums[block];
  visit_accumulation(p.y.dtype, [&](auto zero) {
    using T = decltype(zero);
    *p.y.as<T>() = static_cast<T>(total / p.divisor);
  });
}

}  // namespace heed::cpu
#endif
