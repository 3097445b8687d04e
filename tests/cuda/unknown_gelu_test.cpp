// heed's products with gelu where cuBLASLt knows no algorithm for them, which no card can be asked for.
#include <gtest/gtest.h>
#include <hostcuda.h>

#include "autograd/check/op_case.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/gemm.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear.hpp"
#include "tests/cuda/cuda_test.hpp"

namespace heed::test {
namespace {

class UnknownGelu : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    const std::string& card = cuda::status().devices.at(0).architecture;
    if (card != "sm_90") GTEST_SKIP() << "no product has gelu on " << card;
    hostcuda::without_gelu_algorithms = hostcuda::quiet = true;
  }
  void TearDown() override {
    hostcuda::without_gelu_algorithms = hostcuda::quiet = false;
    CudaTest::TearDown();
  }
  static Tensor drawn(const Shape& shape, uint32_t seed) {
    return draw(normal("", shape), DType::bf16, seed).to(Device::cuda);
  }
  // Of `rows` rows, so that each test asks for a kind of product of its own.
  static bool is_one(int64_t rows) {
    const Tensor x = drawn({rows, 16}, 1), weight = drawn({24, 16}, 2);
    const Tensor u = drawn({rows, 24}, 3), y = drawn({rows, 24}, 4);
    return cuda::gemm_gelu(context(Device::cuda),
                           {.m = rows, .n = 24, .k = 16, .a = x, .b = weight, .c = u.ref(), .transpose_b = true},
                           y.ref());
  }
};

TEST_F(UnknownGelu, IsRememberedForThatKindOfProduct) {
  EXPECT_FALSE(is_one(901));
  hostcuda::without_gelu_algorithms = false;
  EXPECT_FALSE(is_one(901)) << "asked again";
  EXPECT_TRUE(is_one(902));
  hostcuda::without_gelu_algorithms = true;
  EXPECT_TRUE(is_one(902));
}

TEST_F(UnknownGelu, TwoStepsDoTheSame) {
  const Tensor x = drawn({903, 16}, 1), weight = drawn({24, 16}, 2);
  const Tensor bias = draw(vector_parameter(normal("", {24})), DType::bf16, 3).to(Device::cuda);
  EXPECT_EQ(linear_gelu(x, weight, bias).values(), gelu(linear(x, weight, bias)).values());
}

}  // namespace
}  // namespace heed::test
