#include <cstring>

#include "autograd/cpu/parallel.hpp"
#include "autograd/ops/copy.hpp"

namespace heed::cpu {

void copy_elements(Context&, const TensorRef& y, const ConstTensorRef& x) {
  const auto element_bytes = static_cast<size_t>(size_bytes(x.dtype));
  parallel_for(x.shape.numel(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    const size_t offset = static_cast<size_t>(begin) * element_bytes;
    std::memcpy(static_cast<char*>(y.data) + offset, static_cast<const char*>(x.data) + offset,
                static_cast<size_t>(end - begin) * element_bytes);
  });
}

}  // namespace heed::cpu
