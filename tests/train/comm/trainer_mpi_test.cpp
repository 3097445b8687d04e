// A trainer on several ranks beside one on a single rank, in the same process. Run by mpirun with 1, 2 and 4 ranks.
#include <cmath>

#include "autograd/core/philox.hpp"
#include "autograd/ops/dropout.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/comm/ranks_fixture.hpp"
#include "train/comm/agreement.hpp"
#include "train/run/snapshot.hpp"

namespace heed::test {
namespace {

struct Form {
  const char* name;
  std::vector<std::string> overrides;
};
void PrintTo(const Form& form, std::ostream* out) { *out << form.name; }

train::Config config_of(const Form& form) {
  std::vector<std::string> overrides{"dropout=0.1", "attention_dropout=0.1", "batch_size=24"};
  overrides.insert(overrides.end(), form.overrides.begin(), form.overrides.end());
  return tiny_config(overrides);
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

class TrainerOnRanks : public ::testing::TestWithParam<Form> {
 protected:
  comm::ProcessGroup& ranks_ = all_ranks();
};
INSTANTIATE_TEST_SUITE_P(
    Forms, TrainerOnRanks,
    ::testing::Values(
        Form{"plain", {}}, Form{"micro_batches", {"micro_batch_size=3"}}, Form{"sharded", {"shard_optimizer=true"}},
        Form{"sharded_micro_batches", {"shard_optimizer=true", "micro_batch_size=2"}},
        Form{"post_untied_sgd",
             {"norm_position=post", "tie_embeddings=false", "optimizer=sgd", "momentum=0.9", "shard_optimizer=true"}},
        Form{"averaged", {"ema_decay=0.9"}}, Form{"sharded_averaged", {"ema_decay=0.9", "shard_optimizer=true"}},
        Form{"muon", {"optimizer=muon", "num_kv_heads=1"}}, Form{"recompute", {"recompute=true"}},
        Form{"no_clipping", {"clip_norm=0"}}),
    [](const auto& form) { return form.param.name; });

// The gradients that this rank has summed: all of them, or those of its shards; and the same of one rank alone.
void expect_equal_gradients(const train::Trainer& on_ranks, const train::Trainer& alone) {
  const auto& groups = alone.model().parameters().groups();
  for (int group = 0; group < static_cast<int>(groups.size()); ++group) {
    std::vector<Tensor> own;
    for (const size_t span : on_ranks.buckets().spans_of(group)) {
      own.push_back(on_ranks.buckets().spans()[span].gradients);
    }
    const std::vector<double> all = on_ranks.buckets().whole(group, own).values();
    const std::vector<double> expected = groups[static_cast<size_t>(group)].gradients.values();
    ASSERT_GE(all.size(), expected.size());
    std::vector<double> difference(all);
    for (size_t i = 0; i < expected.size(); ++i) difference[i] -= expected[i];
    EXPECT_LE(norm_of(difference), kMicroBatchGradient * norm_of(expected)) << "group " << group;
    EXPECT_GT(norm_of(expected), 0);
  }
}

TEST_P(TrainerOnRanks, GradientsAndLossesAreThoseOfOneRank) {
  train::Trainer on_ranks(config_of(GetParam()), ranks_);
  train::Trainer alone(config_of(GetParam()));
  for (int step = 0; step < 20; ++step) {
    const train::StepResult a = on_ranks.train_step(), b = alone.train_step();
    EXPECT_EQ(a.targets, b.targets);
    EXPECT_NEAR(a.loss, b.loss, kMicroBatchLoss * b.loss) << "step " << step;
    EXPECT_NEAR(a.grad_norm, b.grad_norm, kRanksNorm * b.grad_norm) << "step " << step;
    if (step == 0) expect_equal_gradients(on_ranks, alone);
  }
  on_ranks.require_same_weights();
}

TEST_P(TrainerOnRanks, BucketsLeaveWhileBackwardRuns) {
  train::Trainer trainer(config_of(GetParam()), ranks_);
  trainer.train_step();
  EXPECT_EQ(trainer.buckets().overlapped(), 0u) << "the first step learns";
  EXPECT_GE(trainer.buckets().count(), 4u);
  for (int i = 0; i < 2; ++i) {
    trainer.train_step();
    // All but those of the embeddings and of the first parameters.
    EXPECT_GE(trainer.buckets().overlapped(), trainer.buckets().count() / 2);
    EXPECT_LE(trainer.buckets().overlapped(), trainer.buckets().count());
  }
}

TEST_P(TrainerOnRanks, AWishToStopReachesAll) {
  train::Trainer trainer(config_of(GetParam()), ranks_);
  EXPECT_FALSE(trainer.train_step(false).must_stop);
  EXPECT_TRUE(trainer.train_step(ranks_.rank() == ranks_.size() - 1).must_stop);
  EXPECT_FALSE(trainer.train_step(false).must_stop);
}

TEST_P(TrainerOnRanks, EvaluatesAsOneRank) {
  train::Trainer on_ranks(config_of(GetParam()), ranks_), alone(config_of(GetParam()));
  for (const int64_t batches : {1, 3, 0}) {
    const train::Evaluation a = on_ranks.evaluate(data::Split::validation, batches);
    const train::Evaluation b = alone.evaluate(data::Split::validation, batches);
    EXPECT_EQ(a.targets, b.targets);
    EXPECT_EQ(a.whole_split, b.whole_split);
    EXPECT_NEAR(a.loss, b.loss, kSixDigits);
    EXPECT_NEAR(*a.excess, *b.excess, kSixDigits);
  }
}

TEST_P(TrainerOnRanks, AnEvaluationThatOneRankStopsHasNoResultOnAny) {
  const train::Trainer trainer(config_of(GetParam()), ranks_);
  const bool stops = ranks_.rank() == ranks_.size() - 1;
  const auto stop = [&](int64_t, int64_t) { return !stops; };
  EXPECT_FALSE(trainer.evaluate(data::Split::validation, 0, stop));
  EXPECT_TRUE(trainer.evaluate(data::Split::validation, 0, [](int64_t, int64_t) { return true; }));
}

TEST_P(TrainerOnRanks, ACheckpointDoesNotKnowTheRanks) {
  train::Trainer on_ranks(config_of(GetParam()), ranks_), alone(config_of(GetParam()));
  for (int i = 0; i < 3; ++i) on_ranks.train_step();
  const train::CheckpointContent content = train::snapshot(on_ranks, {});
  for (int i = 0; i < 3; ++i) alone.train_step();
  const train::CheckpointContent expected = train::snapshot(alone, {});
  if (!ranks_.is_root()) {
    EXPECT_TRUE(content.tensors.empty());
    return;
  }
  ASSERT_EQ(content.tensors.size(), expected.tensors.size());
  for (const auto& [name, tensor] : expected.tensors) {
    ASSERT_TRUE(content.tensors.contains(name)) << name;
    ASSERT_EQ(content.tensors.at(name).shape(), tensor.shape()) << name;
    std::vector<double> difference = content.tensors.at(name).values();
    const std::vector<double> values = tensor.values();
    for (size_t i = 0; i < values.size(); ++i) difference[i] -= values[i];
    // Adam's first moves are near sign(g): where a gradient is near 0 rounding may turn one around.
    EXPECT_LE(norm_of(difference), kRanksWeights * norm_of(values)) << name;
  }
}

TEST_P(TrainerOnRanks, MasksAreBitEqual) {
  const int64_t rows = 24, own = rows / ranks_.size(), width = 10;
  const RandomStream random{.seed = 3, .site = 5, .step = 7};
  const Tensor ones = full({rows, width}, DType::f32, 1), own_ones = full({own, width}, DType::f32, 1);
  const std::vector<double> all = dropout(ones, 0.5, random, 0).values();
  const std::vector<double> part = dropout(own_ones, 0.5, random, ranks_.rank() * own).values();
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(ranks_.rank() * own * width);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), begin));
  // Not the same on two ranks: half of the elements agree.
  if (ranks_.size() == 1) return;
  const Tensor many = full({5000, 4}, DType::f32, 1);
  const std::vector<double> mine = dropout(many, 0.5, random, 0).values();
  const std::vector<double> others = dropout(many, 0.5, random, 5000).values();
  int equal = 0;
  for (size_t i = 0; i < mine.size(); ++i) equal += mine[i] == others[i];
  EXPECT_NEAR(equal / static_cast<double>(mine.size()), 0.5, kHalfOfTheMask);
}

TEST(ShardedOptimizer, KeepsItsPartOnly) {
  comm::ProcessGroup& ranks = all_ranks();
  const auto bytes_of_optimizer = [&](const char* sharded) {
    const int64_t before =
        memory_report(Device::cpu).category[static_cast<size_t>(MemoryCategory::optimizer)].current_bytes;
    const train::Trainer trainer(tiny_config({"batch_size=8", std::string("shard_optimizer=") + sharded}), ranks);
    return memory_report(Device::cpu).category[static_cast<size_t>(MemoryCategory::optimizer)].current_bytes - before;
  };
  const int64_t whole = bytes_of_optimizer("false"), part = bytes_of_optimizer("true");
  EXPECT_GT(whole, 0);
  EXPECT_LE(part, whole / ranks.size() + 4096);
}

TEST(ShardedOptimizer, KeepsItsPartOfTheExactWeightsInBf16) {
  comm::ProcessGroup& ranks = all_ranks();
  train::Trainer sharded(tiny_config({"batch_size=8", "precision=bf16", "shard_optimizer=true"}), ranks);
  train::Trainer whole(tiny_config({"batch_size=8", "precision=bf16"}), ranks);
  EXPECT_EQ(bool(sharded.model().parameters().groups()[0].weights), ranks.size() == 1);
  for (int i = 0; i < 10; ++i) EXPECT_NEAR(sharded.train_step().loss, whole.train_step().loss, kSixDigits) << i;
  const Tensor a = sharded.buckets().whole_weights(0), b = whole.buckets().whole_weights(0);
  EXPECT_EQ(a.values(), b.values());
}

TEST(ShardedOptimizer, EvaluatesTheSameAverage) {
  comm::ProcessGroup& ranks = all_ranks();
  for (const char* precision : {"f32", "bf16"}) {
    std::vector<std::string> keys{"batch_size=8", "clip_norm=0", "ema_decay=0.9",
                                  std::string("precision=") + precision};
    train::Trainer whole(tiny_config(keys), ranks), alone(tiny_config(keys));
    keys.emplace_back("shard_optimizer=true");
    train::Trainer sharded(tiny_config(keys), ranks);
    const auto loss = [](const train::Trainer& trainer, train::EvaluatedWeights weights) {
      return trainer.evaluate(data::Split::validation, 0, {}, weights)->loss;
    };
    for (int i = 0; i < 5; ++i) {
      EXPECT_NEAR(sharded.train_step().loss, whole.train_step().loss, kSixDigits) << i;
      alone.train_step();
      const double last = loss(sharded, train::EvaluatedWeights::last);
      const double average = loss(sharded, train::EvaluatedWeights::average);
      EXPECT_NE(average, last);
      EXPECT_EQ(average, loss(whole, train::EvaluatedWeights::average)) << precision << ", step " << i;
      EXPECT_EQ(last, loss(sharded, train::EvaluatedWeights::last)) << precision << ", step " << i;
      const double other = loss(alone, train::EvaluatedWeights::average);
      if (std::string(precision) == "f32") {
        EXPECT_NEAR(average, other, kSixDigits) << "step " << i;
      }
    }
    const train::CheckpointContent content = train::snapshot(sharded, {}), same = train::snapshot(whole, {});
    for (const auto& [name, tensor] : content.tensors) {
      EXPECT_EQ(tensor.values(), same.tensors.at(name).values()) << precision << " " << name;
    }
  }
}

// Sharded, the ranks gather the updates of the matrices before newton_schulz(). 16 columns: matrices of 256 elements
// and more in shards of 512 and less.
TEST(ShardedOptimizer, OfMuonGivesTheSameWeights) {
  comm::ProcessGroup& ranks = all_ranks();
  const std::vector<std::string> muon{"batch_size=8", "optimizer=muon", "adamw_learning_rate=3e-3", "clip_norm=0",
                                      "num_kv_heads=1"};
  for (const char* precision : {"f32", "bf16"}) {
    std::vector<std::string> more = muon;
    more.push_back(std::string("precision=") + precision);
    train::Trainer whole(tiny_config(more), ranks);
    more.emplace_back("shard_optimizer=true");
    train::Trainer sharded(tiny_config(more), ranks);
    for (int i = 0; i < 10; ++i) EXPECT_NEAR(sharded.train_step().loss, whole.train_step().loss, kSixDigits) << i;
    for (int group = 0; group < 2; ++group) {
      const Tensor a = sharded.buckets().whole_weights(group), b = whole.buckets().whole_weights(group);
      EXPECT_EQ(a.values(), b.values()) << precision << ", group " << group;
    }
    const train::CheckpointContent content = train::snapshot(sharded, {}), same = train::snapshot(whole, {});
    EXPECT_EQ(content.tensors.size(), same.tensors.size());
    for (const auto& [name, tensor] : content.tensors) {
      EXPECT_EQ(tensor.values(), same.tensors.at(name).values()) << precision << " " << name;
    }
    EXPECT_EQ(same.tensors.contains("optimizer/v/blocks.0.attention.qkv.weight"), false);
  }
}

// A different start or config would train something else on each rank.
TEST(RanksThatDiffer, AreRefused) {
  comm::ProcessGroup& ranks = all_ranks();
  if (ranks.size() == 1) return;
  const char* seed = ranks.rank() == 1 ? "model.seed=5" : "model.seed=4";
  EXPECT_THROW(train::Trainer(tiny_config({"batch_size=8", seed}), ranks), comm::CollectiveError);
  EXPECT_THROW(train::Trainer(tiny_config({"batch_size=13"}), ranks), comm::CollectiveError);
}

TEST(RanksThatDiffer, InOneWeightAreFound) {
  comm::ProcessGroup& ranks = all_ranks();
  if (ranks.size() == 1) return;
  train::Trainer trainer(tiny_config({"batch_size=8"}), ranks);
  trainer.require_same_weights();
  if (ranks.rank() == 1) trainer.model().parameters().groups()[1].weights.data<float>()[3] += 1e-6f;
  EXPECT_THROW(trainer.require_same_weights(), comm::CollectiveError);
}

TEST(RanksWithoutData, EndTogether) { expect_all_to_end_without_data("cpu", comm::make_communicator); }

// The NaN is in the rows of one rank, and all must come to the same end.
TEST(RanksThatDiverge, EndTogether) {
  comm::ProcessGroup& ranks = all_ranks();
  train::Trainer trainer(tiny_config({"batch_size=8", "learning_rate=1e30", "clip_norm=0"}), ranks);
  try {
    for (int i = 0; i < 10; ++i) trainer.train_step();
    FAIL() << "does not diverge";
  } catch (const comm::CollectiveError& error) {
    EXPECT_GT(ranks.size(), 1);
    EXPECT_EQ(error.exit_code, 6);
  } catch (const DivergedError&) {
    EXPECT_EQ(ranks.size(), 1);
  }
}

// One batch of an evaluation is the share of the root alone, so the other ranks find no NaN themselves.
TEST(RanksThatDiverge, EndTogetherInAnEvaluation) {
  comm::ProcessGroup& ranks = all_ranks();
  train::Trainer trainer(tiny_config({"batch_size=8"}), ranks);
  trainer.train_step();
  trainer.model().parameters().entry("blocks.1.feed_forward.up.weight").tensor.data<float>()[3] = NAN;
  EXPECT_TRUE(std::isnan(trainer.evaluate(data::Split::validation, 1).loss));
  try {
    trainer.report_diverged_evaluation(data::Split::validation, 1, NAN);
  } catch (const comm::CollectiveError& error) {
    EXPECT_GT(ranks.size(), 1);
    EXPECT_EQ(error.exit_code, 6);
  } catch (const DivergedError& error) {
    EXPECT_NE(std::string(error.what()).find("'linear_gelu' in blocks.1.feed_forward"), std::string::npos);
  }
}

}  // namespace
}  // namespace heed::test
