// Which way linear_gelu goes on CUDA, and that both ways lead to the same place.
#include "autograd/ops/linear.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/check/op_case.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/gemm.hpp"
#include "autograd/ops/copy.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/tape.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/op_runs.hpp"
#include "tests/support/tolerance.hpp"

namespace heed::test {
namespace {

using LinearGelu = CudaTest;

bool card_has_the_product() {
  const std::string& card = cuda::status().devices.at(0).architecture;
  return card.starts_with("sm_9") || card.starts_with("sm_10");
}

Tensor drawn(const Shape& shape, DType dtype, uint32_t seed, double spread = 1) {
  return draw(normal("", shape, 0, spread), dtype, seed).to(Device::cuda);
}

struct Product {
  int64_t m = 32, n = 64, k = 48;
  DType in = DType::bf16, out = DType::bf16;
  bool add = false;
  int64_t first = 0;  // of u in its memory

  // Whether one product made y and u; where it did not, whether it left them alone.
  bool is_one() const {
    const Tensor x = drawn({m, k}, in, 1), weight = drawn({n, k}, in, 2, 0.1);
    const Tensor memory = full({m * n + first}, out, 7, Device::cuda), y = full({m, n}, out, 7, Device::cuda);
    const Tensor u = memory.slice(first, {m, n});
    const bool done = cuda::gemm_gelu(
        context(Device::cuda),
        {.m = m, .n = n, .k = k, .a = x, .b = weight, .c = u.ref(), .transpose_b = true, .add = add}, y.ref());
    const std::vector<double> untouched(static_cast<size_t>(m * n), 7.0);
    EXPECT_EQ(u.values() == untouched, !done);
    EXPECT_EQ(y.values() == untouched, !done);
    return done;
  }
};

TEST_F(LinearGelu, OneProductWhereTheRuleSaysSo) {
  EXPECT_EQ(Product{}.is_one(), card_has_the_product());
  (Product{.m = 1, .n = 8, .k = 8}).is_one();  // fused or not: the library may have no algorithm for one row
  EXPECT_EQ((Product{.first = 8}).is_one(), card_has_the_product()) << "16 bytes";
  EXPECT_FALSE((Product{.first = 4}).is_one()) << "u at 8 bytes";
  EXPECT_FALSE((Product{.n = 60}).is_one()) << "60 outputs";
  EXPECT_FALSE((Product{.in = DType::f32, .out = DType::f32}).is_one()) << "f32";
  EXPECT_FALSE((Product{.out = DType::f32}).is_one()) << "bf16 into f32";
  EXPECT_FALSE((Product{.add = true}).is_one()) << "adds";
  EXPECT_FALSE((Product{.m = 0}).is_one()) << "no rows";
}

// cuBLASLt fuses the bias into GPT-2's linear layers, and GELU into the first layer of an MLP. If it rejected these
// epilogues, the results would stay right, but each step would be slower.
TEST_F(LinearGelu, TheProductsOfGpt2AreFused) {
  const bool is_emulated = cuda::status().architectures == "host execution";
  const int64_t rows = is_emulated ? 16 : 4096, width = 768;
  for (const int64_t outputs : {width, 3 * width, 4 * width}) {
    SCOPED_TRACE(outputs);
    const Tensor x = drawn({rows, width}, DType::bf16, 1), weight = drawn({outputs, width}, DType::bf16, 2);
    const Tensor bias = drawn({outputs}, DType::f32, 3), u = full({rows, outputs}, DType::bf16, 0, Device::cuda);
    const Tensor y = full({rows, outputs}, DType::bf16, 0, Device::cuda);
    const cuda::Gemm product{
        .m = rows, .n = outputs, .k = width, .a = x, .b = weight, .c = u.ref(), .transpose_b = true, .bias = bias};
    EXPECT_TRUE(cuda::gemm(context(Device::cuda), product));
    EXPECT_EQ(cuda::gemm_gelu(context(Device::cuda), product, y.ref()), card_has_the_product());
  }
}

// Both keep a u that was rounded once; y differs by that rounding, times the slope of gelu, and by its own.
TEST_F(LinearGelu, OneProductIsAsGoodAsTwoSteps) {
  for (const bool with_bias : {true, false}) {
    for (const int64_t outputs : {64, 60}) {
      const auto leaf = [](const Tensor& tensor) { return tensor.detach().set_requires_grad(true); };
      const Tensor x = drawn({33, 48}, DType::bf16, 1), weight = drawn({outputs, 48}, DType::bf16, 2, 0.12),
                   bias = with_bias ? drawn({outputs}, DType::f32, 3, 0.3) : Tensor();
      const Tensor dy = drawn({33, outputs}, DType::bf16, 4);
      std::vector<Values> results[2];
      for (const bool one : {true, false}) {
        const Tensor a = leaf(x), b = leaf(weight), c = with_bias ? leaf(bias) : Tensor();
        const Tensor y = one ? linear_gelu(a, b, c) : gelu(linear(a, b, c));
        results[one].push_back(y.values());
        backward(y, dy);
        for (const Tensor& tensor : {a, b, c}) {
          if (tensor) results[one].push_back(tensor.grad().values());
        }
      }
      for (size_t i = 0; i < results[0].front().size(); ++i) {
        const double two = results[0].front()[i];
        EXPECT_NEAR(results[1].front()[i], two, kBf16Epsilon * std::max(std::abs(two), 0.25)) << "y[" << i << "]";
      }
      for (size_t i = 1; i < results[0].size(); ++i) {
        EXPECT_LE(distance(results[0][i], results[1][i]), kBf16Epsilon * largest(results[0][i]))
            << "gradient " << i - 1;
      }
    }
  }
}

// A block that is computed again in backward must be what it was: with and without a tape the same product.
TEST_F(LinearGelu, ATapeChangesNoBit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor x = drawn({33, 48}, dtype, 1).set_requires_grad(true), weight = drawn({64, 48}, dtype, 2, 0.1);
    const std::vector<double> recorded = linear_gelu(x, weight, Tensor()).values();
    const NoGradGuard no_grad;
    EXPECT_EQ(linear_gelu(x, weight, Tensor()).values(), recorded);
  }
}

TEST_F(LinearGelu, ACopyOfTheBiasChangesNoBit) {
  for (const int64_t rows : {1, 33}) {
    const Tensor x = drawn({rows, 48}, DType::bf16, 1), weight = drawn({64, 48}, DType::bf16, 2, 0.1);
    const Tensor bias = drawn({64}, DType::f32, 3), copy = cast(bias, DType::bf16);
    EXPECT_EQ(linear(x, weight, bias, copy).values(), linear(x, weight, bias).values());
    EXPECT_EQ(linear_gelu(x, weight, bias, copy).values(), linear_gelu(x, weight, bias).values());
    EXPECT_THROW(linear(x, weight, bias, copy.slice(0, {63})), ShapeError);
    EXPECT_THROW(linear(x, weight, bias, bias), DTypeError);
  }
}

}  // namespace
}  // namespace heed::test
