// heed's GEMMs with GELU and with a bias, if cuBLASLt has no algorithm for them or rejects them. Only the emulation can
// be told to do so.
#include <gtest/gtest.h>
#include <hostcuda.h>

#include "autograd/check/op_case.hpp"
#include "autograd/core/cuda_backend.hpp"
#include "autograd/cuda/gemm.hpp"
#include "autograd/ops/elementwise.hpp"
#include "autograd/ops/linear.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/op_runs.hpp"
#include "tests/support/tolerance.hpp"

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
    hostcuda::without_gelu_algorithms = hostcuda::epilogues_are_invalid = hostcuda::quiet = false;
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
  // Whether the library adds the bias.
  static bool adds_its_bias(int64_t rows) {
    const Tensor x = drawn({rows, 16}, 1), weight = drawn({24, 16}, 2), u = drawn({rows, 24}, 3);
    const Tensor bias = full({24}, DType::f32, 1, Device::cuda);
    return cuda::gemm(
        context(Device::cuda),
        {.m = rows, .n = 24, .k = 16, .a = x, .b = weight, .c = u.ref(), .transpose_b = true, .bias = bias});
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

TEST_F(UnknownGelu, AnInvalidEpilogueIsReplacedForEverySize) {
  hostcuda::without_gelu_algorithms = false;
  hostcuda::epilogues_are_invalid = true;
  for (const int64_t rows : {1, 904}) {
    SCOPED_TRACE(rows);
    EXPECT_FALSE(is_one(rows));
    EXPECT_FALSE(adds_its_bias(rows));
    const Tensor x = drawn({rows, 16}, 1), weight = drawn({24, 16}, 2);
    const Tensor bias = draw(vector_parameter(normal("", {24})), DType::bf16, 3).to(Device::cuda);
    EXPECT_EQ(linear_gelu(x, weight, Tensor()).values(), gelu(linear(x, weight, Tensor())).values());
    const std::vector<double> y = linear(x, weight, bias).values();
    const std::vector<double> on_cpu = linear(x.to(Device::cpu), weight.to(Device::cpu), bias.to(Device::cpu)).values();
    EXPECT_LE(distance(y, on_cpu), kBf16Epsilon * largest(on_cpu));
  }
}

}  // namespace
}  // namespace heed::test
