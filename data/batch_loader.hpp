// Batches of sequences. A batch is a pure function of the training step and its row range. Micro-batches and ranks,
// each with its own rows of the global batch, therefore train on exactly the same data as a single process.
#pragma once

#include "data/dataset.hpp"

namespace heed::data {

// inputs and targets: (rows, seq_len) each, row-major.
struct Batch {
  int64_t rows = 0;
  int64_t seq_len = 0;
  std::vector<int32_t> inputs;
  std::vector<int32_t> targets;
};

class BatchLoader {
 public:
  // Keeps a reference to the dataset. batch_size: sequences per training step, over all ranks and micro-batches.
  // Throws ConfigError unless both numbers are at least 1.
  BatchLoader(const Dataset& dataset, int64_t seq_len, int64_t batch_size);

  int64_t seq_len() const { return seq_len_; }
  int64_t batch_size() const { return batch_size_; }

  // Rows first_row … first_row + num_rows - 1 of the global batch of training step `step`. Throws ValueError for rows
  // out of range.
  Batch train_batch(uint64_t step, int64_t first_row, int64_t num_rows) const;

  // The same for the fixed list of evaluation sequences of a split.
  int64_t num_eval_sequences(Split split) const { return dataset_.num_eval_sequences(split, seq_len_); }
  Batch eval_batch(Split split, int64_t first_sequence, int64_t num_sequences) const;

 private:
  template <class FillSequence>
  Batch make_batch(int64_t first, int64_t count, int64_t available, FillSequence fill_sequence) const;

  const Dataset& dataset_;
  int64_t seq_len_;
  int64_t batch_size_;
};

}  // namespace heed::data
