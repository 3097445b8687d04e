#include "train/bench/step_profile.hpp"

#include <gtest/gtest.h>

#include "tests/train/tiny.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

using test::tiny_config;

const BenchRow& find(const std::vector<BenchRow>& rows, const std::string& operation, bool is_backward) {
  for (const BenchRow& row : rows) {
    if (row.operation == operation && row.is_backward == is_backward) return row;
  }
  throw ValueError("the profile has no row of " + operation);
}

double flops_of(const std::vector<BenchRow>& rows, const std::string& operation) {
  double sum = 0;
  for (const BenchRow& row : rows) sum += row.operation.starts_with(operation) ? row.flops : 0;
  return sum;
}

TEST(StepProfile, CountsWhatAStepDoes) {
  Trainer trainer(tiny_config());
  StepProfile profile({{"optimizer", 100}});
  for (int i = 0; i < 3; ++i) profile.add([&] { trainer.train_step(); });
  const std::vector<BenchRow> rows = profile.rows();
  const int64_t tokens = 12 * 8, layers = 2, width = 16;
  // Each weight makes two FLOPs forward and four backward; each of T (T + 1) / 2 pairs a score and a share of a value.
  EXPECT_EQ(flops_of(rows, "linear"),
            static_cast<double>(nn::flops_per_token(trainer.model().config()).weights * tokens));
  EXPECT_EQ(flops_of(rows, "attention"), static_cast<double>(3 * 4 * layers * 12 * width * 8 * 9 / 2));
  const BenchRow& head = find(rows, "linear_cross_entropy", false);  // forward and backward
  EXPECT_EQ(head.calls, 1);
  EXPECT_EQ(head.flops, static_cast<double>(3 * 2 * tokens * width * 6));
  EXPECT_EQ(head.bytes, static_cast<double>(4 * (1 + 3 * (tokens + 6) * width)));
  EXPECT_EQ(find(rows, "layer_norm", true).calls, 2 * layers + 1);
  EXPECT_EQ(find(rows, "layer_norm", false).shapes, "(12, 8, 16) (16) (16)");
  EXPECT_EQ(find(rows, "optimizer", false).bytes, 100);
  // What it takes, and of the hidden layer u and y; backward dy, u, du written and read.
  const int64_t taken = tokens * width + 4 * width * width + 4 * width, hidden = tokens * 4 * width;
  EXPECT_EQ(find(rows, "linear_gelu", false).bytes, static_cast<double>(layers * 4 * (taken + 2 * hidden)));
  EXPECT_EQ(find(rows, "linear_gelu", true).bytes, static_cast<double>(layers * 4 * (2 * taken + 4 * hidden)));
  for (const char* other : {"batch", "gradient norm"}) EXPECT_EQ(find(rows, other, false).calls, 1);
}

TEST(StepProfile, RowsAreAtMostTheStepAndFall) {
  Trainer trainer(tiny_config());
  StepProfile profile({});
  double whole = 0;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    profile.add([&] { trainer.train_step(); });
    whole += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  double sum = 0, last = whole;
  for (const BenchRow& row : profile.rows()) {
    EXPECT_LE(row.seconds, last);
    sum += 3 * (last = row.seconds);
  }
  EXPECT_LE(sum, whole);
}

TEST(StepProfile, WatchesOnlyWhatItIsGiven) {
  Trainer trainer(tiny_config());
  StepProfile profile({});
  profile.add([&] { trainer.train_step(); });
  trainer.train_step();
  EXPECT_EQ(find(profile.rows(), "optimizer", false).calls, 1);
}

}  // namespace
}  // namespace heed::train
