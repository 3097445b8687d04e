#include "data/batch_loader.hpp"

#include "autograd/core/check.hpp"

namespace heed::data {

BatchLoader::BatchLoader(const Dataset& dataset, int64_t seq_len, int64_t batch_size)
    : dataset_(dataset), seq_len_(seq_len), batch_size_(batch_size) {
  require<ConfigError>(seq_len >= 1, "model.seq_len = {}, it must be at least 1", seq_len);
  require<ConfigError>(batch_size >= 1, "train.batch_size = {}, it must be at least 1", batch_size);
}

template <class FillSequence>
Batch BatchLoader::make_batch(int64_t first, int64_t count, int64_t available, FillSequence fill_sequence) const {
  require<ValueError>(first >= 0 && count >= 1 && count <= available && first <= available - count,
                      "batch: {} rows from row {} on, there are {}", count, first, available);
  Batch batch{count, seq_len_, std::vector<int32_t>(count * seq_len_), std::vector<int32_t>(count * seq_len_)};
  for (int64_t row = 0; row < count; ++row) {
    fill_sequence(first + row, std::span(batch.inputs).subspan(row * seq_len_, seq_len_),
                  std::span(batch.targets).subspan(row * seq_len_, seq_len_));
  }
  return batch;
}

Batch BatchLoader::train_batch(uint64_t step, int64_t first_row, int64_t num_rows) const {
  return make_batch(first_row, num_rows, batch_size_,
                    [&](int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) {
                      dataset_.train_sequence(step, row, inputs, targets);
                    });
}

Batch BatchLoader::eval_batch(Split split, int64_t first_sequence, int64_t num_sequences) const {
  return make_batch(first_sequence, num_sequences, num_eval_sequences(split),
                    [&](int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) {
                      dataset_.eval_sequence(split, index, inputs, targets);
                    });
}

}  // namespace heed::data
