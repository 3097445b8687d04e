#include "autograd/ops/transpose.hpp"

#include <utility>

#include "autograd/core/device.hpp"
#include "autograd/tape.hpp"

namespace heed {
namespace {

TransposeSizes sizes_of(const Shape& x, int dim0, int dim1) {
  const auto product = [&](int begin, int end) {
    int64_t result = 1;
    for (int i = begin; i < end; ++i) result *= x[i];
    return result;
  };
  if (dim0 == dim1) return {.rows = x.numel()};
  if (dim0 > dim1) std::swap(dim0, dim1);
  return {.outer = product(0, dim0),
          .rows = x[dim0],
          .middle = product(dim0 + 1, dim1),
          .columns = x[dim1],
          .inner = product(dim1 + 1, x.rank())};
}

Shape exchanged(const Shape& x, int dim0, int dim1) {
  Shape y;
  for (int i = 0; i < x.rank(); ++i) y = y.with_appended(x[i == dim0 ? dim1 : i == dim1 ? dim0 : i]);
  return y;
}

}  // namespace

Tensor transpose(const Tensor& x, int dim0, int dim1) {
  require<DTypeError>(is_floating(x.dtype()), "transpose: x is {}, it must be f32, bf16 or f64", x.dtype());
  dim0 = checked_dimension("transpose", x.shape(), dim0);
  dim1 = checked_dimension("transpose", x.shape(), dim1);
  const TransposeSizes sizes = sizes_of(x.shape(), dim0, dim1);
  Output y(exchanged(x.shape(), dim0, dim1), x.dtype(), x.device());
  HEED_DISPATCH(x.device(), transpose, {.y = {y.ref()}, .x = x, .sizes = sizes});
  return record("transpose", std::move(y), {x}, [sizes](const Tensor& dy, Gradients& gradients) {
    HEED_DISPATCH(dy.device(), transpose, {.y = gradients.sink(0), .x = dy, .sizes = sizes.exchanged()});
  });
}

}  // namespace heed
