#include "autograd/ops/matmul.hpp"

#include <gtest/gtest.h>

#include "autograd/check/op_case.hpp"
#include "autograd/cpu/parallel.hpp"
#include "autograd/tape.hpp"

namespace heed::test {
namespace {

using Values = std::vector<double>;

TEST(Matmul, Bf16MatricesHaveF32Gradients) {
  const auto gradient_dtype = [](const Shape& a, const Shape& b) {
    const Tensor matrix = full(b, DType::bf16, 1).set_requires_grad(true);
    const Tensor y = matmul(full(a, DType::bf16, 1), matrix);
    backward(y, full(y.shape(), y.dtype(), 1));
    return matrix.grad().dtype();
  };
  EXPECT_EQ(gradient_dtype({2, 3, 4}, {4, 5}), DType::f32);
  EXPECT_EQ(gradient_dtype({2, 3, 4}, {2, 4, 5}), DType::bf16) << "no parameter, but a tensor of the batch";
}

// Batches of matrices that are large enough to be divided among threads.
TEST(Matmul, SameBitsForAnyThreads) {
  const int threads = cpu::max_threads();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto run = [dtype](int count) {
      cpu::set_max_threads(count);
      const Tensor a = draw(normal("a", {5, 70, 600}), dtype, 1).set_requires_grad(true);
      const Tensor b = draw(normal("b", {5, 600, 50}), dtype, 1).set_requires_grad(true);
      const Tensor y = matmul(a, b);
      backward(y, draw(normal("dy", y.shape()), dtype, 1));
      return std::vector{y.values(), a.grad().values(), b.grad().values()};
    };
    const auto first = run(1);
    for (const int count : {2, 3}) EXPECT_EQ(run(count), first) << count << " threads, " << name(dtype);
  }
  cpu::set_max_threads(threads);
}

// More shapes than oneDNN's primitives are kept for, and then the first ones again.
TEST(Matmul, ManyShapes) {
  const Tensor a = from_values({2, 1, 2}, DType::f32, {2, 3, 4, 5});
  for (const int64_t shapes : {520, 8}) {
    for (int64_t n = 1; n <= shapes; ++n) {
      Values y(static_cast<size_t>(n), 5.0);
      y.resize(static_cast<size_t>(2 * n), 9.0);
      EXPECT_EQ(matmul(a, full({2, 2, n}, DType::f32, 1.0)).values(), y) << n;
    }
  }
}

// A sum over no rows is 0, and empty results and gradients are no error.
TEST(Matmul, NoRowsColumnsOrMatrices) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const auto expect_zeros = [dtype](const Shape& a_shape, const Shape& b_shape, const Shape& y_shape) {
      const Tensor a = full(a_shape, dtype, 1).set_requires_grad(true),
                   b = full(b_shape, dtype, 1).set_requires_grad(true);
      const Tensor y = matmul(a, b);
      EXPECT_EQ(y.shape(), y_shape);
      backward(y, full(y.shape(), dtype, 1));
      EXPECT_EQ(a.grad().values(), Values(static_cast<size_t>(a.numel()), 0));
      EXPECT_EQ(b.grad().values(), Values(static_cast<size_t>(b.numel()), 0));
    };
    expect_zeros({2, 0, 3}, {3, 4}, {2, 0, 4});
    expect_zeros({0, 2, 3}, {3, 4}, {0, 2, 4});
    expect_zeros({0, 2, 3}, {0, 3, 4}, {0, 2, 4});
    expect_zeros({2, 0, 3}, {2, 3, 4}, {2, 0, 4});
    expect_zeros({5, 3}, {3, 0}, {5, 0});
  }
}

}  // namespace
}  // namespace heed::test
