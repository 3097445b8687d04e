// Training on CUDA beside training on the CPU: the same config, the same batches, the same masks.
#include "train/trainer/trainer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "autograd/tape.hpp"
#include "tests/cuda/cuda_test.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/tiny.hpp"
#include "train/run/snapshot.hpp"

namespace heed::train {
namespace {

using test::tiny_config;
using Overrides = std::vector<std::string>;

constexpr int kSteps = 10;

class TrainerOnCuda : public test::CudaTest {
 protected:
  static Trainer make(const char* device, const Overrides& more) {
    Overrides all = more;
    all.push_back(std::string("device=") + device);
    return Trainer(tiny_config(all));
  }
  static std::vector<double> losses(Trainer& trainer, int steps = kSteps) {
    std::vector<double> result;
    for (int i = 0; i < steps; ++i) {
      const StepResult step = trainer.train_step();
      result.push_back(step.loss);
      result.push_back(step.grad_norm);
    }
    return result;
  }
  static std::vector<double> losses(const char* device, const Overrides& more) {
    Trainer trainer = make(device, more);
    return losses(trainer);
  }
  static std::vector<double> weights(const Trainer& trainer) {
    std::vector<double> result;
    for (const nn::ParameterGroup& group : trainer.model().parameters().groups()) {
      const std::vector<double> values = group.weights.values();
      result.insert(result.end(), values.begin(), values.end());
    }
    return result;
  }
  static void expect_near(const std::vector<double>& a, const std::vector<double>& b, double relative) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << i;
  }
};

const Overrides kForms[] = {
    {"model.dropout=0"},
    {"model.dropout=0.1", "model.attention_dropout=0.1", "micro_batch_size=4"},
    {"norm_position=post", "num_kv_heads=1", "tie_embeddings=true", "position=sinusoidal", "recompute=true"},
    // The norms after the sublayers enlarge the differences of roundings, hence a small learning rate.
    {"norm_position=sandwich", "norm=rms", "qk_norm=true", "embedding_norm=true", "learning_rate=2e-4"},
    {"attention_only=true", "norm_gain=false", "qk_norm=true", "num_kv_heads=1"},
    {"activation=relu", "bias=false", "optimizer=sgd", "momentum=0.9", "learning_rate=0.02", "clip_norm=0",
     "micro_batch_size=6"},
    // Without biases: the gradient of a key bias is nearly rounding alone, which AdamW turns into whole steps.
    {"position=rope", "activation=swiglu", "logit_softcap=3", "rope_fraction=0.5", "bias=false"},
    {"optimizer=muon", "num_kv_heads=1", "adamw_learning_rate=3e-3", "vector_lr_scale=2"},
    {"position=alibi", "sliding_window=5", "window_pattern=LS", "bias=false", "attention_dropout=0.1"},
};

TEST_F(TrainerOnCuda, TakesTheSamePathAsTheCpu) {
  for (const Overrides& form : kForms) {
    SCOPED_TRACE(form.front());
    expect_near(losses("cuda", form), losses("cpu", form), test::kCudaLossF32);
  }
}

TEST_F(TrainerOnCuda, TakesTheSamePathInBf16) {
  for (Overrides form : kForms) {
    SCOPED_TRACE(form.front());
    form.push_back("precision=bf16");
    expect_near(losses("cuda", form), losses("cpu", form), test::kCudaLossBf16);
  }
}

// Dropout draws other numbers in each replay, the learning rate moves, the optimizer counts.
TEST_F(TrainerOnCuda, ARecordedStepIsTheSameBitForBit) {
  for (Overrides form : kForms) {
    SCOPED_TRACE(form.front());
    form.insert(form.end(), {"warmup_steps=5", "min_learning_rate=1e-5"});
    Overrides eager = form;
    eager.push_back("cuda_graph=false");
    Trainer recorded = make("cuda", form), plain = make("cuda", eager);
    EXPECT_EQ(losses(recorded), losses(plain));
    EXPECT_EQ(weights(recorded), weights(plain));
  }
}

TEST_F(TrainerOnCuda, SameSeedSameBits) {
  const Overrides form{"model.dropout=0.1", "precision=bf16"};
  EXPECT_EQ(losses("cuda", form), losses("cuda", form));
}

TEST_F(TrainerOnCuda, StopsAtNanWithoutChangingAWeight) {
  for (const char* graph : {"cuda_graph=true", "cuda_graph=false"}) {
    Trainer trainer = make("cuda", {graph});
    losses(trainer, 3);
    const nn::ParameterStore& store = trainer.model().parameters();
    const Tensor& gain = store.entry("blocks.1.feed_forward_norm.weight").values;
    copy_elements_to(gain.slice(3, {1}).ref(), full({1}, DType::f32, std::numeric_limits<double>::quiet_NaN()));
    const std::vector<double> before = weights(trainer);
    try {
      trainer.train_step();
      ADD_FAILURE() << "a NaN went through";
    } catch (const DivergedError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("step 4"), std::string::npos) << text;
      EXPECT_NE(text.find("'layer_norm' in blocks.1"), std::string::npos) << text;
    }
    const std::vector<double> after = weights(trainer);
    for (size_t i = 0; i < after.size(); ++i) {
      EXPECT_TRUE(before[i] == after[i] || (std::isnan(before[i]) && std::isnan(after[i]))) << i;
    }
    EXPECT_EQ(trainer.step(), 3);
  }
}

TEST_F(TrainerOnCuda, EvaluatesAsTheCpuAndIsNotDisturbedByIt) {
  Trainer cuda = make("cuda", {}), cpu = make("cpu", {});
  std::vector<double> with, without = losses("cuda", {});
  for (int i = 0; i < kSteps; ++i) {
    const StepResult step = cuda.train_step();
    cpu.train_step();
    with.insert(with.end(), {step.loss, step.grad_norm});
    const double loss = cuda.evaluate(data::Split::validation, 1).loss;
    EXPECT_NEAR(loss, cpu.evaluate(data::Split::validation, 1).loss, test::kCudaLossF32 * loss);
  }
  EXPECT_EQ(with, without);
}

// The captured step is the eager one, also between evaluations that swap the weights with their average.
TEST_F(TrainerOnCuda, EvaluatesTheAverageAsTheCpuAndIsNotDisturbedByIt) {
  const Overrides average{"ema_decay=0.9"};
  Trainer captured = make("cuda", average), eager = make("cuda", {"ema_decay=0.9", "cuda_graph=false"}),
          cpu = make("cpu", average);
  const auto loss = [](const Trainer& trainer) {
    return trainer.evaluate(data::Split::validation, 1, {}, EvaluatedWeights::average)->loss;
  };
  std::vector<double> with, without = losses("cuda", {});
  for (int i = 0; i < kSteps; ++i) {
    const StepResult step = captured.train_step();
    eager.train_step();
    cpu.train_step();
    with.insert(with.end(), {step.loss, step.grad_norm});
    const double found = loss(captured);
    EXPECT_EQ(found, loss(eager));
    EXPECT_NEAR(found, loss(cpu), test::kCudaLossF32 * found);
  }
  EXPECT_EQ(with, without);
}

// A run goes on elsewhere: what a checkpoint holds does not depend on the device.
TEST_F(TrainerOnCuda, GoesOnFromTheStateOfAnotherDevice) {
  const Overrides form{"model.dropout=0.1"};
  for (const auto& [first, second] : {std::pair{"cuda", "cuda"}, {"cuda", "cpu"}, {"cpu", "cuda"}}) {
    SCOPED_TRACE(testing::Message() << first << " then " << second);
    Trainer whole = make(first, form);
    const std::vector<double> expected = losses(whole);
    Trainer begin = make(first, form);
    losses(begin, kSteps / 2);
    CheckpointContent state = snapshot(begin, {});
    Trainer end = make(second, form);
    restore(end, state);
    const std::vector<double> rest = losses(end, kSteps / 2);
    const std::vector<double> same(expected.end() - static_cast<std::ptrdiff_t>(rest.size()), expected.end());
    if (std::string(first) == second) {
      EXPECT_EQ(rest, same);
    } else {
      expect_near(rest, same, test::kCudaLossF32);
    }
  }
}

TEST_F(TrainerOnCuda, MemoryIsFlat) {
  Trainer trainer = make("cuda", {"steps=400", "model.dropout=0.1"});
  const auto run = [&](int steps) {
    losses(trainer, steps);
    trainer.evaluate(data::Split::validation, 1);
    EXPECT_EQ(live_nodes(), 0);
    return memory_report(Device::cuda);
  };
  const MemoryReport early = run(4), late = run(8);
  EXPECT_EQ(early.system_allocations, late.system_allocations);
  EXPECT_EQ(early.total.current_bytes, late.total.current_bytes);
}

// What is allocated between replays must not be what the replay writes into.
TEST_F(TrainerOnCuda, ReplaysLeaveOtherTensorsAlone) {
  Trainer trainer = make("cuda", {"steps=400"});
  losses(trainer, 4);
  std::vector<Tensor> held;
  for (const int64_t n : {1, 6, 16, 64, 96, 200, 576, 1536, 4096, 6144, 9216, 24576}) {
    for (int copy = 0; copy < 8; ++copy) held.push_back(full({n}, DType::f32, 3.0, Device::cuda));
  }
  losses(trainer, 2);
  for (const Tensor& tensor : held) {
    for (const double value : tensor.values()) ASSERT_EQ(value, 3.0) << "of " << tensor.shape().text();
  }
}

// Few steps of a form that has all of it, for where every access of a kernel is checked, which takes its time.
class ShortTrainingOnCuda : public TrainerOnCuda {};

TEST_F(ShortTrainingOnCuda, IsThatOfTheCpu) {
  for (const char* precision : {"precision=f32", "precision=bf16"}) {
    const Overrides form{precision, "model.dropout=0.1", "model.attention_dropout=0.1", "micro_batch_size=6"};
    Trainer cuda = make("cuda", form), cpu = make("cpu", form);
    expect_near(losses(cuda, 3), losses(cpu, 3),
                cuda.config().train.precision == DType::f32 ? test::kCudaLossF32 : test::kCudaLossBf16);
    EXPECT_GT(cuda.evaluate(data::Split::validation, 1).loss, 0);
  }
}

TEST_F(TrainerOnCuda, RefusesF64) {
  try {
    make("cuda", {"precision=f64"});
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("train.precision"), std::string::npos) << error.what();
  }
  EXPECT_EQ(make("auto", {"precision=f64"}).device(), Device::cpu);
  EXPECT_EQ(make("auto", {}).device(), Device::cuda);
}

}  // namespace
}  // namespace heed::train
