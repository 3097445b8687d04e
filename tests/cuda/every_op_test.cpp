// What every OP_CASE must pass on CUDA: on a card, or with the kernels executed on the CPU. Exactness is measured
// against f64 on the CPU, which is another code path.
#include <gtest/gtest.h>

#include "tests/cuda/cuda_test.hpp"
#include "tests/support/op_runs.hpp"

namespace heed::test {
namespace {

class EveryOpOnCuda : public CudaTestWithoutPool, public testing::WithParamInterface<Item> {
 protected:
  void SetUp() override {
    if (GetParam().sample->needs_f64) GTEST_SKIP() << "f64 is for the CPU";
    CudaTestWithoutPool::SetUp();
  }
  const OpSample& sample() const { return *GetParam().sample; }
};

TEST_P(EveryOpOnCuda, F32IsAsExactAsThePlainReference) { expect_f32_as_exact_as_plain(sample(), Device::cuda); }

TEST_P(EveryOpOnCuda, Bf16RoundsThePlainReferenceOnce) { expect_bf16_rounds_once(sample(), Device::cuda); }

TEST_P(EveryOpOnCuda, TwoPassesAddUp) { expect_two_passes_add_up(sample(), Device::cuda); }

INSTANTIATE_TEST_SUITE_P(Cases, EveryOpOnCuda, testing::ValuesIn(all_items()), item_name);

// The same kernels again, so that where every access of a kernel is checked, which takes its time, these are left out.
class EveryOpOnCudaAgain : public EveryOpOnCuda {};

TEST_P(EveryOpOnCudaAgain, SameBitsInputsUnchanged) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    expect_inputs_unchanged_and_same_bits(sample(), {dtype, Device::cuda});
  }
}

TEST_P(EveryOpOnCudaAgain, OneGradientAloneIsTheSame) { expect_one_gradient_alone_is_the_same(sample(), Device::cuda); }

TEST_P(EveryOpOnCudaAgain, NanAndInfShow) {
  expect_nan_and_inf_show(sample(), {{DType::f32, Device::cuda}, {DType::bf16, Device::cuda}});
}

// Both backends draw the same words: what one drops, the other drops.
TEST_P(EveryOpOnCudaAgain, ZerosWhereTheCpuHasThem) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const OpResult cpu = run(sample(), Place{dtype}), cuda = run(sample(), Place{dtype, Device::cuda});
    for (size_t i = 0; i < cpu.y.size(); ++i) EXPECT_EQ(cpu.y[i] == 0, cuda.y[i] == 0) << "y[" << i << "]";
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, EveryOpOnCudaAgain, testing::ValuesIn(all_items()), item_name);

}  // namespace
}  // namespace heed::test
