#include <algorithm>

#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/cast.hpp"

namespace heed::cpu {

void cast_elements(Context&, const TensorRef& y, const ConstTensorRef& x) {
  visit_floating(x.dtype, [&](auto from) {
    visit_floating(y.dtype, [&](auto to) {
      using From = decltype(from);
      using To = decltype(to);
      parallel_for(x.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
        std::transform(x.as<From>() + begin, x.as<From>() + end, y.as<To>() + begin,
                       [](From v) { return static_cast<To>(v); });
      });
    });
  });
}

}  // namespace heed::cpu
