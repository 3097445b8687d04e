#include "data/batch_loader.hpp"

#include "autograd/core/check.hpp"

namespace heed::data {

BatchLoader::BatchLoader(const Source& source, int64_t seq_len, int64_t batch_size)
    : source_(source), seq_len_(seq_len), batch_size_(batch_size) {
  require<ConfigError>(seq_len >= 1, "model.seq_len = {}, it must be at least 1", seq_len);
  require<ConfigError>(batch_size >= 1, "train.batch_size = {}, it must be at least 1", batch_size);
}

template <class FillWindow>
Batch BatchLoader::make_batch(int64_t first, int64_t count, int64_t available, FillWindow fill_window) const {
  require<ValueError>(first >= 0 && count >= 1 && count <= available && first <= available - count,
                      "batch: {} rows from row {} on, there are {}", count, first, available);
  Batch batch{count, seq_len_, std::vector<int32_t>(count * seq_len_), std::vector<int32_t>(count * seq_len_)};
  for (int64_t row = 0; row < count; ++row) {
    fill_window(first + row, std::span(batch.inputs).subspan(row * seq_len_, seq_len_),
                std::span(batch.targets).subspan(row * seq_len_, seq_len_));
  }
  return batch;
}

Batch BatchLoader::train_batch(uint64_t step, int64_t first_row, int64_t num_rows) const {
  return make_batch(first_row, num_rows, batch_size_,
                    [&](int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) {
                      source_.train_window(step, row, inputs, targets);
                    });
}

Batch BatchLoader::eval_batch(Split split, int64_t first_window, int64_t num_windows) const {
  return make_batch(first_window, num_windows, num_eval_windows(split),
                    [&](int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) {
                      source_.eval_window(split, index, inputs, targets);
                    });
}

}  // namespace heed::data
