// Chunks of a fixed size are summed separately, each by one thread, and their sums are added in order: the bits do not
// depend on the number of threads. Reads every gradient once; memory-bound.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/grad_clip_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "optim/grad_clip.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {

// Widen to f64 before squaring: no square of an f32 overflows or underflows then.
double squares_f32(const float* x, int64_t n) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  const auto at = [&](int64_t i) HWY_ATTR { return hn::PromoteTo(d, hn::LoadU(narrow, x + i)); };
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto x0 = at(i), x1 = at(i + lanes), x2 = at(i + 2 * lanes), x3 = at(i + 3 * lanes);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3))));
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

double squares_f64(const double* x, int64_t n) {
  const hn::ScalableTag<double> d;
  return sum_of(d, n, [&](auto load) HWY_ATTR {
    const auto value = load(x);
    return hn::Mul(value, value);
  });
}

double sum_squares_block(const ConstTensorRef& values, int64_t begin, int64_t end) {
  return values.dtype == DType::f64 ? squares_f64(values.as<double>() + begin, end - begin)
                                    : squares_f32(values.as<float>() + begin, end - begin);
}

}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(sum_squares_block);

void sum_of_squares(Context& context, const optim::SumOfSquares& p) {
  constexpr int64_t kBlock = 1 << 15;
  const int64_t n = p.values.shape.numel(), blocks = ceil_divide(n, kBlock);
  const Scratch<double> sums(context, blocks);
  parallel_tasks(blocks, blocks, [&](int64_t block, int64_t) {
    sums[block] = HWY_DYNAMIC_DISPATCH(sum_squares_block)(p.values, block * kBlock, std::min(n, (block + 1) * kBlock));
  });
  double total = 0;
  for (int64_t block = 0; block < blocks; ++block) total += sums[block];
  *p.sum.as<double>() = total;
}

}  // namespace heed::cpu
#endif
