#include "train/trainer/trainer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/tiny.hpp"
#include "train/trainer/memory.hpp"

namespace heed::train {
namespace {

using test::tiny_config;

std::vector<double> all(const Trainer& trainer, bool gradients) {
  std::vector<double> result;
  for (const nn::ParameterGroup& group : trainer.model().parameters().groups()) {
    const std::vector<double> values = (gradients ? group.gradients : group.weights).values();
    result.insert(result.end(), values.begin(), values.end());
  }
  return result;
}

double norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double v : values) squares += v * v;
  return std::sqrt(squares);
}

std::vector<double> difference(const std::vector<double>& a, std::vector<double> b) {
  EXPECT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) b[i] -= a[i];
  return b;
}

TEST(Trainer, MakesExactlyTheStepsAskedFor) {
  Trainer trainer(tiny_config());
  for (int64_t step = 1; step <= 3; ++step) EXPECT_EQ(trainer.train_step().step, step);
  EXPECT_EQ(trainer.step(), 3);
  EXPECT_EQ(trainer.optimizer().steps(), 3);
}

TEST(Trainer, CountsTheTargetsOfTheWholeStep) {
  EXPECT_EQ(Trainer(tiny_config({"micro_batch_size=4"})).train_step().targets, 12 * 8);
}

// The same global batch in other pieces: rounding only.
TEST(Trainer, MicroBatchesChangeRoundingOnly) {
  for (const char* dropout : {"model.dropout=0", "model.dropout=0.1"}) {
    std::vector<std::vector<double>> losses, first_gradients;
    for (const char* rows : {"micro_batch_size=12", "micro_batch_size=4", "micro_batch_size=3"}) {
      Trainer trainer(tiny_config({rows, dropout}));
      losses.emplace_back();
      for (int step = 0; step < 20; ++step) {
        losses.back().push_back(trainer.train_step().loss);
        if (step == 0) first_gradients.push_back(all(trainer, true));
      }
    }
    for (size_t i : {1u, 2u}) {
      EXPECT_LT(norm(difference(first_gradients[0], first_gradients[i])),
                test::kMicroBatchGradient * norm(first_gradients[0]));
      for (size_t step = 0; step < 20; ++step) {
        EXPECT_LT(std::abs(losses[0][step] - losses[i][step]), test::kMicroBatchLoss * losses[0][step]);
      }
    }
  }
}

TEST(Trainer, SameSeedSameBits) {
  const std::vector<std::string> dropout{"model.dropout=0.1", "model.attention_dropout=0.1"};
  Trainer a(tiny_config(dropout)), b(tiny_config(dropout));
  for (int step = 0; step < 5; ++step) EXPECT_EQ(a.train_step().loss, b.train_step().loss);
  EXPECT_EQ(all(a, false), all(b, false));
}

TEST(Trainer, EachSeedChangesItsOwnPart) {
  const double base = Trainer(tiny_config({"model.dropout=0.1"})).train_step().loss;
  for (const char* seed : {"model.seed=9", "data.seed=9", "train.seed=9"}) {
    EXPECT_NE(Trainer(tiny_config({"model.dropout=0.1", seed})).train_step().loss, base) << seed;
  }
  // Without dropout, train.seed draws nothing.
  EXPECT_EQ(Trainer(tiny_config({"train.seed=9"})).train_step().loss, Trainer(tiny_config()).train_step().loss);
}

TEST(Trainer, EvaluationDoesNotDisturbTraining) {
  Trainer a(tiny_config({"model.dropout=0.1"})), b(tiny_config({"model.dropout=0.1"}));
  for (int step = 0; step < 6; ++step) {
    EXPECT_EQ(a.train_step().loss, b.train_step().loss);
    if (step % 2 == 0) b.evaluate(data::Split::validation, 1);
  }
}

// Sets the weights of a trainer to the averages of an optimizer.
void set_weights(const Trainer& trainer, const optim::Optimizer& optimizer) {
  size_t span = 0;
  for (const auto& [name, state] : optimizer.state()) {
    if (name.starts_with(optim::kAverageName)) {
      copy_elements_to(trainer.buckets().spans()[span++].weights.ref(), state);
    }
  }
  EXPECT_EQ(span, trainer.buckets().spans().size());
  trainer.model().parameters().update_copies();
}

TEST(Trainer, EvaluationOfTheAverageDoesNotDisturbTraining) {
  const auto evaluate = [](const Trainer& trainer, EvaluatedWeights weights) {
    return trainer.evaluate(data::Split::validation, 1, {}, weights)->loss;
  };
  for (const char* precision : {"f32", "bf16", "f64"}) {
    std::vector<std::string> keys{"model.dropout=0.1", std::string("precision=") + precision};
    Trainer without(tiny_config(keys));
    keys.emplace_back("ema_decay=0.9");
    Trainer a(tiny_config(keys)), b(tiny_config(keys));
    const Trainer other(tiny_config(keys));
    EXPECT_EQ(evaluate(b, EvaluatedWeights::average), evaluate(b, EvaluatedWeights::last));
    for (int step = 0; step < 6; ++step) {
      const double loss = a.train_step().loss;
      EXPECT_EQ(b.train_step().loss, loss);
      EXPECT_EQ(without.train_step().loss, loss);
      const double last = evaluate(b, EvaluatedWeights::last);
      const double average = evaluate(b, EvaluatedWeights::average);
      EXPECT_NE(average, last);
      EXPECT_EQ(evaluate(b, EvaluatedWeights::last), last);
      // Of all parameters, also those with bf16 copies.
      set_weights(other, b.optimizer());
      EXPECT_EQ(evaluate(other, EvaluatedWeights::last), average);
    }
    for (size_t i = 0; i < a.optimizer().state().size(); ++i) {
      const auto& [name, state] = a.optimizer().state()[i];
      EXPECT_EQ(b.optimizer().state()[i].second.values(), state.values()) << name;
    }
  }
}

TEST(Trainer, AnEvaluationOfTheAverageThatStopsGivesTheWeightsBack) {
  Trainer trainer(tiny_config({"ema_decay=0.9"}));
  trainer.train_step();
  const std::vector<double> before = all(trainer, false);
  const auto fail = [](int64_t, int64_t) -> bool { throw ValueError("an error of the callback"); };
  const auto stop = [](int64_t, int64_t) { return false; };
  EXPECT_THROW(trainer.evaluate(data::Split::validation, 0, fail, EvaluatedWeights::average), ValueError);
  EXPECT_EQ(all(trainer, false), before);
  EXPECT_FALSE(trainer.evaluate(data::Split::validation, 0, stop, EvaluatedWeights::average));
  EXPECT_EQ(all(trainer, false), before);
}

TEST(Trainer, EvaluatesEachTargetOnceAndPairsTheSource) {
  const Trainer trainer(tiny_config());
  const Evaluation whole = trainer.evaluate(data::Split::validation, 0);
  EXPECT_TRUE(whole.whole_split);
  EXPECT_GE(whole.targets, 100000);
  EXPECT_EQ(whole.targets % 8, 0);
  ASSERT_TRUE(whole.excess);
  // An untrained model loses about ln V, the source its entropy.
  const double entropy = trainer.dataset().entropies(8).back().nats;
  EXPECT_LT(std::abs(*whole.excess - (whole.loss - entropy)), test::kPairedNoise);
  const Evaluation part = trainer.evaluate(data::Split::validation, 2);
  EXPECT_FALSE(part.whole_split);
  EXPECT_EQ(part.targets, 2 * 12 * 8);
  EXPECT_NE(trainer.evaluate(data::Split::test, 0).loss, whole.loss);
}

TEST(Trainer, EvaluationDoesNotDependOnTheBatchSize) {
  const double a = Trainer(tiny_config()).evaluate(data::Split::validation, 0).loss;
  const double b = Trainer(tiny_config({"batch_size=7"})).evaluate(data::Split::validation, 0).loss;
  EXPECT_LT(std::abs(a - b), test::kF32 * a);
}

TEST(Trainer, LearnsTheSource) {
  Trainer trainer(tiny_config({"learning_rate=1e-2", "steps=300", "weight_decay=0"}));
  for (int step = 0; step < 300; ++step) trainer.train_step();
  const Evaluation e = trainer.evaluate(data::Split::validation, 0);
  EXPECT_LT(*e.excess, test::kLearnt);
  EXPECT_GT(*e.excess, -test::kPairedNoise);  // nothing beats the source on its own targets
}

// Gradients of zero: decay alone moves the matrices, nothing moves gains and biases.
TEST(Trainer, DecaysMatricesOnly) {
  Trainer trainer(tiny_config());
  const nn::ParameterStore& store = trainer.model().parameters();
  for (const auto& entry : store.entries()) {
    EXPECT_EQ(entry.group, entry.shape.rank() >= 2 ? 0 : 1) << entry.name;
  }
  EXPECT_EQ(store.groups()[0].parameters + store.groups()[1].parameters, store.parameters());
  EXPECT_EQ(store.groups()[0].tensors + store.groups()[1].tensors, static_cast<int64_t>(store.entries().size()));
}

void poison_weight(const Trainer& trainer, const std::string& name) {
  trainer.model().parameters().entry(name).tensor.data<float>()[3] = std::numeric_limits<float>::quiet_NaN();
}

TEST(Trainer, StopsAtNanAndNamesTheOperation) {
  Trainer trainer(tiny_config());
  trainer.train_step();
  poison_weight(trainer, "blocks.1.feed_forward.up.weight");
  const std::vector<double> before = all(trainer, false);
  try {
    trainer.train_step();
    ADD_FAILURE() << "a NaN went through";
  } catch (const DivergedError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("step 2"), std::string::npos) << text;
    EXPECT_NE(text.find("'linear_gelu' in blocks.1.feed_forward"), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  EXPECT_EQ(trainer.step(), 1);
  // Bit patterns: NaN differs from itself as a number.
  const std::vector<double> after = all(trainer, false);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin(),
                         [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }));
  EXPECT_FALSE(detect_anomaly());
}

TEST(Trainer, MemoryIsFlatAndNoNodeOutlivesAStep) {
  Trainer trainer(tiny_config({"steps=400"}));
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      trainer.train_step();
      EXPECT_EQ(live_nodes(), 0);
    }
    trainer.evaluate(data::Split::validation, 1);
    return memory_report(Device::cpu);
  };
  const MemoryReport early = run(10), late = run(50);
  // Under the address sanitizer the pool keeps no blocks, so that each use after free shows.
  if (late.cached_bytes > 0) {
    EXPECT_EQ(early.system_allocations, late.system_allocations);
  }
  EXPECT_EQ(early.total.current_bytes, late.total.current_bytes);
}

TEST(Trainer, EstimatesItsMemory) {
  for (const char* form : {"recompute=false", "recompute=true", "norm=rms", "norm_position=sandwich", "qk_norm=true",
                           "embedding_norm=true", "attention_only=true"}) {
    reset_memory_peaks(Device::cpu);
    const Config config = tiny_config({form, "d_model=64", "seq_len=64", "num_layers=4"});
    Trainer trainer(config);
    trainer.train_step();
    const MemoryReport measured = memory_report(Device::cpu);
    const MemoryEstimate estimate = estimate_memory(config, Device::cpu);
    const auto of = [&](MemoryCategory c) { return measured.category[static_cast<size_t>(c)].peak_bytes; };
    const auto near = [](int64_t a, int64_t b, double within) {
      return std::abs(static_cast<double>(a - b)) <= within * static_cast<double>(b);
    };
    EXPECT_TRUE(near(estimate.parameters, of(MemoryCategory::parameters), 0.1));
    EXPECT_TRUE(near(estimate.optimizer, of(MemoryCategory::optimizer), 0.1));
    EXPECT_TRUE(near(estimate.activations, of(MemoryCategory::activations), 0.3))
        << form << " " << estimate.activations << " " << of(MemoryCategory::activations);
  }
}

}  // namespace
}  // namespace heed::train
