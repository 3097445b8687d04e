#include "data/position_dataset.hpp"

#include <algorithm>

#include "autograd/core/check.hpp"
#include "data/dataset.hpp"

namespace heed::data {

void require_sequences(const std::string& name, const SplitSizes& sizes, int64_t seq_len,
                       const std::string& split_keys) {
  require<ConfigError>(seq_len >= 1, "model.seq_len = {}, it must be at least 1", seq_len);
  const auto require_split = [&](int64_t size, const char* split) {
    require<DataError>(num_sequences(size, seq_len) > 0,
                       "{} has {} tokens, {} of them for {}, which needs at least {} (model.seq_len = {} and one for "
                       "the last target): take a longer text, lower model.seq_len or change {}",
                       name, sizes.total(), size, split, seq_len + 1, seq_len, split_keys);
  };
  require_split(sizes.train, "training");
  if (sizes.validation > 0) require_split(sizes.validation, "validation");
  if (sizes.test > 0) require_split(sizes.test, "test");
}

PositionDataset::PositionDataset(Parts parts, int64_t seq_len)
    : parts_(std::move(parts)),
      fingerprint_({parts_.tokens->size(), parts_.tokens->checksum(), parts_.sizes, {}}, *parts_.tokenizer) {
  const SplitSizes& sizes = parts_.sizes;
  require<ValueError>(
      sizes.train >= 0 && sizes.validation >= 0 && sizes.test >= 0 && sizes.total() == parts_.tokens->size(),
      "{}: splits of {}, {} and {} tokens, there are {}", parts_.name, sizes.train, sizes.validation, sizes.test,
      parts_.tokens->size());
  require_sequences(parts_.name, sizes, seq_len, parts_.split_keys);
}

int64_t PositionDataset::begin_of(Split split) const {
  if (split == Split::train) return 0;
  return parts_.sizes.train + (split == Split::test ? parts_.sizes.validation : 0);
}

int64_t PositionDataset::size_of(Split split) const {
  if (split == Split::train) return parts_.sizes.train;
  return split == Split::test ? parts_.sizes.test : parts_.sizes.validation;
}

void PositionDataset::train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs,
                                     std::span<int32_t> targets) const {
  const int64_t count = num_sequences(parts_.sizes.train, static_cast<int64_t>(inputs.size()));
  require<ValueError>(row >= 0 && count > 0, "train_sequence: row {} of sequences of {} tokens, there are {} of these",
                      row, inputs.size(), count);
  const RandomStream stream = text_stream(parts_.seed, TextRandomPlace::train_sequences, step);
  std::vector<int32_t> tokens(inputs.size() + 1);
  parts_.tokens->read(random_below(stream, static_cast<uint64_t>(row), count), tokens);
  shift_sequence(tokens, inputs, targets);
}

int64_t PositionDataset::num_eval_sequences(Split split, int64_t seq_len) const {
  return sequences_to_cover(std::max<int64_t>(size_of(split) - 1, 0), seq_len);
}

void PositionDataset::eval_sequence(Split split, int64_t index, std::span<int32_t> inputs,
                                    std::span<int32_t> targets) const {
  const auto seq_len = static_cast<int64_t>(inputs.size());
  const int64_t count = num_eval_sequences(split, seq_len);
  require<ValueError>(0 <= index && index < count, "eval_sequence: sequence {} of {}", index, count);
  const int64_t offset = index * seq_len;
  std::vector<int32_t> tokens(std::min(seq_len + 1, size_of(split) - offset));
  parts_.tokens->read(begin_of(split) + offset, tokens);
  shift_padded_sequence(tokens, inputs, targets);
}

bool PositionDataset::matches_fingerprint(const std::string& stored) const {
  return fingerprint_.matches(stored,
                              [&](int64_t first, std::span<int32_t> tokens) { parts_.tokens->read(first, tokens); });
}

}  // namespace heed::data
