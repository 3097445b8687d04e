#include "train/run/reporter.hpp"

#include <gtest/gtest.h>

#include "tests/train/tiny.hpp"

namespace heed::train {
namespace {

// 100 sequences for validation, 30 for the test; a step has 4.
RemainingTime make(int64_t eval_batches = 5, int64_t stop_after = 0, FinalEval final_eval = FinalEval::full) {
  Config config = test::tiny_config({"steps=50", "eval_interval=20"});
  config.train.batch_size = 4;
  config.train.eval_batches = eval_batches;
  config.train.stop_after = stop_after;
  config.train.final_eval = final_eval;
  return {config, 100, 30};
}

TEST(RemainingTime, CountsEveryEvaluationThatIsLeft) {
  // After steps 20, 40 and 50: 20 sequences each; then both splits.
  EXPECT_EQ(make().sequences_left(0), 3 * 20 + 100 + 30);
  EXPECT_EQ(make().sequences_left(19), 3 * 20 + 100 + 30);
  EXPECT_EQ(make().sequences_left(20), 2 * 20 + 100 + 30);
  EXPECT_EQ(make().sequences_left(49), 1 * 20 + 100 + 30);
  EXPECT_EQ(make().sequences_left(50), 100 + 30);
  // The last periodic one is the final one where it covers the split.
  EXPECT_EQ(make(0).sequences_left(0), 3 * 100 + 30);
  EXPECT_EQ(make(25).sequences_left(0), 3 * 100 + 30);
  // An early stop between two of them.
  EXPECT_EQ(make(5, 45).sequences_left(0), 2 * 20 + 100 + 30);
  EXPECT_EQ(make(0, 45).sequences_left(0), 2 * 100 + 100 + 30);
  EXPECT_EQ(make(0, 40).sequences_left(0), 2 * 100 + 30);
  // Bounded at the end: the subset is known from the last step, or after an early stop evaluated for it.
  EXPECT_EQ(make(5, 0, FinalEval::subset).sequences_left(0), 3 * 20 + 20);
  EXPECT_EQ(make(5, 45, FinalEval::subset).sequences_left(0), 2 * 20 + 20 + 20);
  EXPECT_EQ(make(5, 45, FinalEval::none).sequences_left(0), 2 * 20);
  EXPECT_EQ(make(5, 0, FinalEval::none).sequences_left(0), 3 * 20);
  EXPECT_EQ(RemainingTime(test::tiny_config({"steps=50", "eval_interval=20"}), 0, 0).sequences_left(0), 0);
}

TEST(RemainingTime, AddsStepsAndEvaluations) {
  RemainingTime time = make();
  EXPECT_EQ(time.seconds(0), 0) << "nothing was measured";
  time.add_step(9);
  time.add_step(15);
  // 12 s a step, so a sequence takes 12 / 4 / 3 = 1 s in an evaluation.
  EXPECT_DOUBLE_EQ(time.seconds(2), 48 * 12 + 190 * 1.0);
  time.add_evaluation(20, 60);
  EXPECT_DOUBLE_EQ(time.seconds(20), 30 * 12 + 170 * 3.0);
  EXPECT_DOUBLE_EQ(time.seconds(50), 130 * 3.0) << "the run is not at its end after its last step";
}

}  // namespace
}  // namespace heed::train
