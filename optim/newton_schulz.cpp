#include "optim/newton_schulz.hpp"

#include <algorithm>
#include <utility>

#include "autograd/core/device.hpp"
#include "optim/grad_clip.hpp"

namespace heed::optim {
namespace {

Tensor workspace_like(const Tensor& x, const Shape& shape) {
  return empty(shape, x.dtype(), x.device(), MemoryCategory::workspace);
}

void divide_by_norms(const Tensor& matrices) {
  const int64_t batch = matrices.shape()[0], size = matrices.numel() / batch;
  const Tensor sums = empty({batch}, DType::f64, matrices.device(), MemoryCategory::workspace);
  for (int64_t i = 0; i < batch; ++i) {
    HEED_DISPATCH(matrices.device(), sum_of_squares,
                  {.sum = sums.slice(i, {}).ref(), .values = matrices.slice(i * size, {size})});
  }
  HEED_DISPATCH(matrices.device(), normalize_matrices, {.x = matrices.ref(), .sums_of_squares = sums});
}

}  // namespace

Tensor newton_schulz(const Tensor& matrices) {
  require<ShapeError>(matrices && matrices.rank() == 3 && matrices.numel() > 0,
                      "newton_schulz: shape {}, it must be (batch, rows, columns) and not empty",
                      matrices ? matrices.shape() : Shape{});
  require<DTypeError>(is_accumulation_dtype(matrices.dtype()), "newton_schulz: {} matrices, they must be f32 or f64",
                      matrices.dtype());
  const int64_t batch = matrices.shape()[0], rows = matrices.shape()[1], columns = matrices.shape()[2];
  const bool tall = rows > columns;
  const int64_t n = std::min(rows, columns);
  divide_by_norms(matrices);
  const Device device = matrices.device();
  const Tensor gram = workspace_like(matrices, {batch, n, n}), square = workspace_like(matrices, {batch, n, n});
  Tensor x = matrices, next = workspace_like(matrices, matrices.shape());
  for (int step = 0; step < NewtonSchulz::kSteps; ++step) {
    HEED_DISPATCH(device, matrix_products,
                  {.c = gram.ref(), .a = x, .b = x, .transpose_a = tall, .transpose_b = !tall});
    HEED_DISPATCH(device, matrix_products, {.c = square.ref(), .a = gram, .b = gram});
    HEED_DISPATCH(device, newton_schulz_polynomial, {.square = square.ref(), .gram = gram});
    const Tensor &left = tall ? x : square, &right = tall ? square : x;
    HEED_DISPATCH(device, matrix_products, {.c = next.ref(), .a = left, .b = right});
    std::swap(x, next);
  }
  return x;
}

}  // namespace heed::optim
