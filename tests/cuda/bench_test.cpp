// What `heed bench` does on CUDA. How long something takes is not tested, but that it is timed and counted.
#include "train/bench/bench.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "autograd/ops/layer_norm.hpp"
#include "autograd/tape.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/train/tiny.hpp"
#include "train/bench/bench_timing.hpp"
#include "train/bench/step_profile.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

class Bench : public test::CudaTest {
 protected:
  void TearDown() override {
    forget_bench_values();  // other suites in this process expect that no device memory is in use
    CudaTest::TearDown();
  }
};

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

// Each replay of a graph records its laps again. A time from the capture or from an earlier replay would lie before the
// new start and give a negative lap.
TEST_F(Bench, TheStopwatchRunsInReplays) {
  const Tensor x = full({300}, DType::f32, 0.0, Device::cuda);
  cuda::Stopwatch stopwatch;
  cuda::Graph graph;
  graph.record([&] {
    for (const int byte : {1, 2}) {
      cuda::fill(x.ref().data, byte, 300 * size_bytes(DType::f32));
      stopwatch.lap();
    }
  });
  for (int i = 0; i < 3; ++i) {
    stopwatch.start();
    graph.replay();
    const std::vector<double> laps = stopwatch.laps();
    ASSERT_EQ(laps.size(), 2u);
    EXPECT_GE(laps[0], 0);
    EXPECT_GE(laps[1], 0);
    EXPECT_GT(laps[0] + laps[1], 0);
  }
  stopwatch.clear();
  EXPECT_TRUE(stopwatch.laps().empty());
}

// The first step of a process also loads the kernels and selects algorithms: its time says nothing about the others.
TEST_F(Bench, WarmsUpWithReplaysAfterASlowStep) {
  struct : WorkObserver {
    void done(const Work&) override {
      set_work_observer(nullptr);
      std::this_thread::sleep_for(std::chrono::duration<double>(kWarmUpSeconds));
    }
  } slow_start;
  Trainer trainer(config_of_bench(test::tiny_config({"device=cuda", "steps=1"})));
  set_work_observer(&slow_start);
  EXPECT_GE(seconds_of([&] { warm_up(trainer, 1); }), 2 * kWarmUpSeconds);
  EXPECT_GE(trainer.step(), 3);
  EXPECT_LT(trainer.step(), trainer.config().train.steps);
  EXPECT_TRUE(trainer.reset_graph());
  const int64_t before = trainer.step();
  warm_up(trainer, 0);
  EXPECT_EQ(trainer.step(), before);
}

// Profiles from the first step on (eager, then captured, then replayed), and after steps whose graph has no profile.
TEST_F(Bench, AStepIsTakenApart) {
  for (const int before : {0, 3}) {
    SCOPED_TRACE(before);
    Trainer trainer(test::tiny_config({"device=cuda"})), other(test::tiny_config({"device=cuda"}));
    for (int i = 0; i < before; ++i) EXPECT_EQ(trainer.train_step().loss, other.train_step().loss);
    StepProfile profile({{"optimizer", 100}}, Device::cuda);
    double whole = 0, sum = 0;
    for (int i = 0; i < 4; ++i) {
      double loss = 0;
      whole += seconds_of([&] { profile.add([&] { loss = trainer.train_step().loss; }); });
      EXPECT_EQ(loss, other.train_step().loss) << "a step is the same under a profile";
    }
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
    for (const BenchRow& row : rows) {
      EXPECT_GE(row.seconds, 0) << row.label();
      sum += 4 * row.seconds;
    }
    EXPECT_GT(sum, 0);
    EXPECT_LE(sum, whole);
    EXPECT_EQ(trainer.train_step().loss, other.train_step().loss) << "captured again, without the profile";
    EXPECT_EQ(profile.rows().size(), rows.size());
  }
}

// A graph keeps the events that it records alive, so a later profile cannot get events at the same address.
TEST_F(Bench, AProfileMayEndBeforeTheGraph) {
  Trainer trainer(test::tiny_config({"device=cuda"}));
  std::optional<StepProfile> profile;
  for (int round = 0; round < 2; ++round) {
    profile.emplace(std::map<std::string, double>(), Device::cuda);
    for (int i = 0; i < 3; ++i) profile->add([&] { trainer.train_step(); });
    EXPECT_FALSE(profile->rows().empty()) << round;
  }
}

}  // namespace
}  // namespace heed::train
