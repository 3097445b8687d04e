// Combinations of model keys, optimizers and ways to split the work, on two ranks beside one rank alone.
#include <cmath>

#include "tests/support/tolerance.hpp"
#include "tests/train/comm/ranks_fixture.hpp"
#include "tests/train/model_combinations.hpp"

namespace heed::test {
namespace {

constexpr int kSteps = 4;

std::vector<Overrides> combinations() {
  std::vector<Factor> factors = model_factors();
  factors.push_back({{"optimizer=adamw"},
                     {"optimizer=adamw", "mup_base_width=8"},
                     {"optimizer=sgd", "momentum=0.9", "learning_rate=0.02"},
                     {"optimizer=muon", "adamw_learning_rate=3e-3"},
                     {"optimizer=muon", "adamw_learning_rate=3e-3", "mup_base_width=8"}});
  factors.push_back({{"shard_optimizer=false"}, {"shard_optimizer=true"}});
  factors.push_back({{"micro_batch_size=0"}, {"micro_batch_size=1"}});
  factors.push_back({{"precision=f32"}, {"precision=bf16"}});
  return covering_combinations(factors);
}

TEST(ModelCombinationsOnRanks, GiveTheLossesOfOneRank) {
  comm::ProcessGroup& ranks = all_ranks();
  if (ranks.size() != 2) GTEST_SKIP() << "for two ranks";
  const TemporaryFolder folder;
  const std::filesystem::path text = folder.path() / "text.txt";
  write_text(text);
  for (const Overrides& combination : combinations()) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(combination, " ")));
    Overrides keys = combination_base(text);
    keys.insert(keys.end(), combination.begin(), combination.end());
    train::Trainer on_ranks(tiny_config(keys), ranks), alone(tiny_config(keys));
    for (int step = 0; step < kSteps; ++step) {
      const train::StepResult a = on_ranks.train_step(), b = alone.train_step();
      EXPECT_EQ(a.targets, b.targets);
      EXPECT_NEAR(a.loss, b.loss, kMicroBatchLoss * b.loss) << "step " << step;
      EXPECT_NEAR(a.grad_norm, b.grad_norm, kRanksNorm * b.grad_norm) << "step " << step;
    }
    on_ranks.require_same_weights();
  }
}

}  // namespace
}  // namespace heed::test
