// What `heed bench` does on CUDA. How long something takes is not tested, but that it is timed and counted.
#include "train/bench/bench.hpp"

#include <gtest/gtest.h>

#include "autograd/ops/layer_norm.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/train/tiny.hpp"
#include "train/bench/bench_timing.hpp"
#include "train/bench/step_profile.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

using Bench = test::CudaTest;

OpSample layer_norm_sample() {
  return {.label = "small",
          .inputs = {normal("x", {6, 17}), vector_parameter(normal("weight", {17}))},
          .run = [](const Tensors& in) { return layer_norm(in[0], in[1], Tensor()); },
          .flops = 100,
          .bytes = 8000,
          .backward_bytes = 12000,
          .backward_parameter_bytes = 68};
}

TEST_F(Bench, TimesAnOperationInBothDtypes) {
  const int64_t before = memory_report(Device::cuda).total.current_bytes;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<BenchRow> rows = bench_operation("layer_norm", layer_norm_sample(), Device::cuda, dtype);
    ASSERT_EQ(rows.size(), 2u);
    const double share = dtype == DType::bf16 ? 0.5 : 1;
    EXPECT_GT(rows[0].seconds, 0);
    EXPECT_GE(rows[1].seconds, 0);
    EXPECT_EQ(rows[0].bytes, share * 8000);
    EXPECT_EQ(rows[1].bytes, share * 12000 + 68);
    EXPECT_EQ(rows[1].flops, 200);
    EXPECT_EQ(rows[1].label(), "layer_norm small backward");
  }
  // The values that are drawn once are kept: a block in each dtype.
  EXPECT_LE(memory_report(Device::cuda).total.current_bytes, before + (int64_t{8} << 20));
}

TEST_F(Bench, ACallIsRecordedAndReplayed) {
  const Tensor x = full({300}, DType::f32, 0.0, Device::cuda);
  int calls = 0;
  const std::vector<double> seconds = call_seconds(Device::cuda, [&] {
    ++calls;
    cuda::fill(x.ref().data, 0x3f, 300 * size_bytes(DType::f32));
  });
  EXPECT_LE(calls, 2 + 32);
  EXPECT_GE(seconds.size(), 5u);
  EXPECT_GT(seconds.front(), 0);
  EXPECT_LE(seconds.front(), seconds.back());
}

TEST_F(Bench, ValuesRepeatABlock) {
  constexpr int64_t kBlock = 1 << 20;
  const std::vector<double> values = bench_values({kBlock + 5}, DType::bf16, Device::cuda).values();
  for (int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(kBlock + i)], values[static_cast<size_t>(i)]);
    EXPECT_NE(values[static_cast<size_t>(i)], 0);
  }
}

TEST_F(Bench, AStepIsTakenApart) {
  Trainer trainer(test::tiny_config({"device=cuda"}));
  trainer.train_step();
  StepProfile profile({{"optimizer", 100}}, Device::cuda);
  for (int i = 0; i < 2; ++i) profile.add([&] { trainer.train_step(); });
  const std::vector<BenchRow> rows = profile.rows();
  const auto calls = [&](const std::string& label) {
    for (const BenchRow& row : rows) {
      if (row.label() == label) return row.calls;
    }
    return int64_t{0};
  };
  EXPECT_EQ(calls("optimizer"), 1);
  EXPECT_EQ(calls("gradient norm"), 1);
  EXPECT_EQ(calls("layer_norm (12, 8, 16) (16) (16) backward"), 5);
  trainer.train_step();
  EXPECT_EQ(calls("optimizer"), 1);
}

}  // namespace
}  // namespace heed::train
