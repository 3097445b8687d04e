// One pass over memory; each thread copies or converts ranges of elements.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "autograd/ops/copy_cpu.cpp"
#include <hwy/foreach_target.h>

#include <algorithm>
#include <cstring>

#include "autograd/cpu/parallel.hpp"
#include "autograd/cpu/simd.hpp"
#include "autograd/ops/copy.hpp"

HWY_BEFORE_NAMESPACE();
namespace heed::cpu::HWY_NAMESPACE {
namespace {

template <class From, class To>
void cast_typed(const From* x, To* y, int64_t count) {
  if constexpr (std::is_same_v<From, double> || std::is_same_v<To, double>) {
    std::transform(x, x + count, y, [](From v) { return static_cast<To>(v); });
  } else {
    for_each_vector(hn::ScalableTag<float>(), count,
                    [&](int64_t, auto load, auto store) HWY_ATTR { store(load(x), y); });
  }
}

void cast_range(const TensorRef& y, const ConstTensorRef& x, int64_t begin, int64_t end) {
  visit_floating(x.dtype, [&](auto from) {
    visit_floating(y.dtype, [&](auto to) {
      cast_typed(x.as<decltype(from)>() + begin, y.as<decltype(to)>() + begin, end - begin);
    });
  });
}

}  // namespace
}  // namespace heed::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace heed::cpu {

HWY_EXPORT(cast_range);

void copy_elements(Context&, const TensorRef& y, const ConstTensorRef& x) {
  const auto element_bytes = static_cast<size_t>(size_bytes(x.dtype));
  parallel_for(x.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    const size_t offset = static_cast<size_t>(begin) * element_bytes;
    std::memcpy(static_cast<char*>(y.data) + offset, static_cast<const char*>(x.data) + offset,
                static_cast<size_t>(end - begin) * element_bytes);
  });
}

void cast_elements(Context&, const TensorRef& y, const ConstTensorRef& x) {
  parallel_for(x.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(cast_range)(y, x, begin, end);
  });
}

}  // namespace heed::cpu
#endif
