// The loss of a split against a mean over its targets that is computed one sequence at a time.
#include "train/trainer/evaluator.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "autograd/tape.hpp"
#include "tests/support/tolerance.hpp"
#include "tests/train/tiny.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

class Evaluator : public testing::Test {
 protected:
  // A text whose validation split has some targets more than full sequences of seq_len 8.
  Config config(const std::string& split, const std::vector<std::string>& more = {}) const {
    const std::string path = (folder_.path() / "text.txt").string();
    std::ofstream file(path);
    for (int line = 0; line < 40; ++line) {
      for (int i = 0; i < line % 7 * 3 + 1; ++i) file << static_cast<char>('a' + (line * line + i * 5) % 11);
      file << '\n';
    }
    file.close();
    std::vector<std::string> overrides{"data.path=" + path, "data.split=" + split};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return parse_config(R"(
      [model]
      num_layers = 2
      num_heads = 2
      d_model = 16
      seq_len = 8
      [data]
      source = "text"
      val_fraction = 0.3
      [optim]
      learning_rate = 0.05
      [train]
      steps = 20
      batch_size = 12
      device = "cpu"
    )",
                        "text.toml", overrides);
  }

  test::TemporaryFolder folder_;
};

struct Mean {
  double sum = 0;
  int64_t targets = 0;
};

// Each sequence alone through the logits, the cross-entropy of each target by hand.
Mean mean_by_hand(const Trainer& trainer, data::Split split, int64_t sequences) {
  const NoGradGuard no_grad;
  const int64_t width = trainer.config().model.seq_len, vocab = trainer.model().config().vocab_size;
  const data::BatchLoader loader(trainer.dataset(), width, 1);
  Mean mean;
  for (int64_t sequence = 0; sequence < sequences; ++sequence) {
    const data::Batch batch = loader.eval_batch(split, sequence, 1);
    const std::vector<double> logits =
        trainer.model().logits(from_tokens({1, width}, batch.inputs, Device::cpu), {}).values();
    for (int64_t t = 0; t < width; ++t) {
      const int32_t target = batch.targets[static_cast<size_t>(t)];
      if (target == data::kIgnoreTarget) continue;
      double sum = 0;
      for (int64_t v = 0; v < vocab; ++v) sum += std::exp(logits[static_cast<size_t>(t * vocab + v)]);
      mean.sum += std::log(sum) - logits[static_cast<size_t>(t * vocab + target)];
      ++mean.targets;
    }
  }
  return mean;
}

TEST_F(Evaluator, IsTheMeanOverTargetsAlsoWhereSequencesAreShorter) {
  for (const char* split : {"position", "lines"}) {
    // Not the fresh model, which has nearly the same loss everywhere.
    Trainer trainer(config(split));
    for (int i = 0; i < 12; ++i) trainer.train_step();
    const int64_t sequences = trainer.dataset().num_eval_sequences(data::Split::validation, 8);
    const Mean expected = mean_by_hand(trainer, data::Split::validation, sequences);
    ASSERT_LT(expected.targets, sequences * 8) << split << ": every sequence is full, so the test cannot fail";
    const Evaluation e = trainer.evaluate(data::Split::validation, 0);
    EXPECT_EQ(e.targets, expected.targets) << split;
    EXPECT_EQ(e.target_bytes, expected.targets) << split;  // every character is one byte
    const double loss = expected.sum / static_cast<double>(expected.targets);
    EXPECT_NEAR(e.loss, loss, test::kF32 * loss) << split;
  }
}

// Of modular addition only c is a target, and a perfect model has loss 0.
TEST_F(Evaluator, ExcessIsAMeanOverTargetsAlsoWherePositionsHaveNone) {
  Trainer trainer(parse_config("[data]\nsource = \"modular_addition\"\nmodulus = 7\nval_fraction = 0.4", "mod.toml",
                               {"seq_len=3", "num_layers=1", "d_model=16", "device=cpu", "batch_size=9"}));
  for (int i = 0; i < 12; ++i) trainer.train_step();
  for (const auto& [split, pairs] : {std::pair{data::Split::train, 29}, {data::Split::validation, 20}}) {
    const Mean expected = mean_by_hand(trainer, split, pairs);
    const Evaluation e = trainer.evaluate(split, 0);
    EXPECT_EQ(e.targets, pairs);
    EXPECT_EQ(expected.targets, pairs);
    EXPECT_NEAR(e.loss, expected.sum / pairs, test::kF32 * e.loss);
    EXPECT_EQ(e.excess.value(), e.loss);
  }
}

TEST_F(Evaluator, CountsItsBatches) {
  const Trainer trainer(test::tiny_config());
  std::vector<std::pair<int64_t, int64_t>> calls;
  const std::optional<Evaluation> e = trainer.evaluate(data::Split::validation, 0, [&](int64_t done, int64_t total) {
    calls.emplace_back(done, total);
    return true;
  });
  ASSERT_TRUE(e);
  EXPECT_EQ(e->loss, trainer.evaluate(data::Split::validation, 0).loss);
  ASSERT_EQ(calls.size(), 1u + (100000 / 8 + 255) / 256) << "2048 tokens are 256 sequences";
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i], std::pair(static_cast<int64_t>(i), static_cast<int64_t>(calls.size()) - 1));
  }
}

TEST_F(Evaluator, StopsWhereProgressSaysSo) {
  // 100000 targets in 2048 at a time: some fifty batches.
  const Trainer trainer(test::tiny_config());
  for (const int64_t stop_at : {0, 1, 5}) {
    int64_t last = -1;
    const auto stop = [&](int64_t done, int64_t) { return (last = done) < stop_at; };
    EXPECT_FALSE(trainer.evaluate(data::Split::validation, 0, stop)) << stop_at;
    EXPECT_EQ(last, stop_at);
  }
  // The last batch was done: there is a result.
  const auto too_late = [](int64_t done, int64_t total) { return done < total; };
  EXPECT_TRUE(trainer.evaluate(data::Split::validation, 0, too_late));
}

}  // namespace
}  // namespace heed::train
