#include "data/batch_loader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "autograd/core/check.hpp"
#include "data/synthetic/markov_dataset.hpp"

namespace heed::data {
namespace {

// Row r holds the tokens 100 · r, 100 · r + 1 …, moved by the step; evaluation has three sequences.
class CountingDataset : public Dataset {
 public:
  int64_t vocab_size() const override { return 1'000'000; }
  void train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs,
                      std::span<int32_t> targets) const override {
    std::vector<int32_t> tokens(inputs.size() + 1);
    std::iota(tokens.begin(), tokens.end(), static_cast<int32_t>(100 * row + 10'000 * static_cast<int64_t>(step)));
    shift_sequence(tokens, inputs, targets);
  }
  int64_t num_eval_sequences(Split, int64_t) const override { return 3; }
  void eval_sequence(Split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override {
    train_sequence(0, index, inputs, targets);
  }
};

TEST(Sequences, OneTokenMoreThanTheInputsIsNeeded) {
  EXPECT_EQ(num_sequences(9, 8), 1);
  EXPECT_EQ(num_sequences(12, 8), 4);
  EXPECT_EQ(num_sequences(8, 8), 0);
  EXPECT_EQ(num_sequences(1, 8), 0);
  EXPECT_EQ(num_sequences(0, 1), 0);
  EXPECT_EQ(num_sequences(2, 1), 1);
  EXPECT_THROW(num_sequences(-1, 8), ValueError);
  EXPECT_THROW(num_sequences(8, 0), ValueError);
}

TEST(ShiftSequence, ShiftsByOne) {
  const std::vector<int32_t> tokens = {0, 1, 2, 3, 4};
  std::vector<int32_t> inputs(4), targets(4), short_targets(3);
  shift_sequence(tokens, inputs, targets);
  EXPECT_EQ(inputs, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(targets, (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_THROW(shift_sequence(tokens, inputs, short_targets), ShapeError);
  EXPECT_THROW(shift_sequence(std::span(tokens).first(4), inputs, targets), ShapeError);
  EXPECT_THROW(shift_sequence(std::span(tokens).first(1), {}, {}), ShapeError);
}

TEST(BatchLoader, LaysRowsOutOneAfterTheOther) {
  const CountingDataset dataset;
  const BatchLoader loader(dataset, 3, 4);
  const Batch batch = loader.train_batch(2, 1, 2);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.seq_len, 3);
  EXPECT_EQ(batch.inputs, (std::vector<int32_t>{20100, 20101, 20102, 20200, 20201, 20202}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{20101, 20102, 20103, 20201, 20202, 20203}));
  EXPECT_EQ(loader.eval_batch(Split::test, 2, 1).inputs, (std::vector<int32_t>{200, 201, 202}));
}

TEST(BatchLoader, AnySplitOfTheBatchGivesTheSameRows) {
  const NgramDataset dataset({3, 8, {8, 6, 4}, 1});
  const BatchLoader loader(dataset, 10, 12);
  const Batch whole = loader.train_batch(7, 0, 12);
  for (const int64_t rows : {1, 2, 3, 4, 6}) {
    std::vector<int32_t> inputs(120), targets(120);
    for (int64_t first = 12 - rows; first >= 0; first -= rows) {  // last piece first: the order of calls is nothing
      const Batch piece = loader.train_batch(7, first, rows);
      std::copy(piece.inputs.begin(), piece.inputs.end(), inputs.begin() + first * 10);
      std::copy(piece.targets.begin(), piece.targets.end(), targets.begin() + first * 10);
    }
    EXPECT_EQ(inputs, whole.inputs) << rows;
    EXPECT_EQ(targets, whole.targets) << rows;
  }
  EXPECT_EQ(BatchLoader(dataset, 10, 6).train_batch(7, 0, 6).inputs,
            std::vector<int32_t>(whole.inputs.begin(), whole.inputs.begin() + 60));
  EXPECT_NE(loader.train_batch(8, 0, 12).inputs, whole.inputs);
}

TEST(BatchLoader, RefusesRowsOutsideTheBatch) {
  const CountingDataset dataset;
  const BatchLoader loader(dataset, 3, 4);
  EXPECT_THROW(loader.train_batch(0, 0, 5), ValueError);
  EXPECT_THROW(loader.train_batch(0, 3, 2), ValueError);
  EXPECT_THROW(loader.train_batch(0, -1, 2), ValueError);
  EXPECT_THROW(loader.train_batch(0, 0, 0), ValueError);
  EXPECT_THROW(loader.train_batch(0, INT64_MAX, INT64_MAX), ValueError);
  EXPECT_NO_THROW(loader.eval_batch(Split::test, 0, 3));
  EXPECT_THROW(loader.eval_batch(Split::test, 1, 3), ValueError);
  EXPECT_THROW(BatchLoader(dataset, 0, 4), ConfigError);
  EXPECT_THROW(BatchLoader(dataset, 3, 0), ConfigError);
}

TEST(Dataset, KnowsNothingExactUnlessItSaysSo) {
  const CountingDataset dataset;
  const std::vector<int32_t> tokens = {1, 2};
  EXPECT_FALSE(dataset.log_loss(tokens, tokens).has_value());
  EXPECT_TRUE(dataset.entropies(8).empty());
}

}  // namespace
}  // namespace heed::data
