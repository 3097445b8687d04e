#include "data/line_dataset.hpp"

#include <algorithm>
#include <numeric>

#include "autograd/core/check.hpp"
#include "data/dataset.hpp"

namespace heed::data {

namespace {

// Fisher-Yates shuffle, from the last element down.
void shuffle(std::vector<int64_t>& order, const RandomStream& stream) {
  for (auto i = static_cast<int64_t>(order.size()) - 1; i > 0; --i) {
    std::swap(order[i], order[random_below(stream, static_cast<uint64_t>(i), i + 1)]);
  }
}

}  // namespace

LineDataset::LineDataset(Parts parts, int64_t seq_len)
    : tokenizer_(std::move(parts.tokenizer)),
      tokens_(std::move(parts.tokens)),
      seed_(parts.seed),
      text_changes_(std::move(parts.text_changes)),
      seq_len_(seq_len) {
  require<ConfigError>(seq_len >= 1, "model.seq_len = {}, it must be at least 1", seq_len);
  require<ValueError>(tokenizer_->end_token().has_value(), "a dataset of lines needs a tokenizer with an end token");
  const int32_t end_token = *tokenizer_->end_token();
  // In place if the caller has reserved two more tokens.
  tokens_.insert(tokens_.begin(), end_token);
  if (tokens_.back() != end_token) tokens_.push_back(end_token);

  std::vector<int64_t> ends;  // positions of the end tokens: the first of each line, and the second of the last line
  ends.reserve(static_cast<size_t>(std::count(tokens_.begin(), tokens_.end(), end_token)));
  for (int64_t i = 0; i < static_cast<int64_t>(tokens_.size()); ++i) {
    if (tokens_[i] == end_token) ends.push_back(i);
  }
  std::vector<int64_t> order(ends.size() - 1);
  std::iota(order.begin(), order.end(), 0);
  const uint32_t split_seed = parts.split_seed.value_or(seed_);
  shuffle(order, text_stream(split_seed, TextRandomPlace::line_order, 0));

  sizes_ = split_lines(static_cast<int64_t>(order.size()), parts.split);
  require<DataError>(sizes_.train > 0,
                     "{} has {} lines, none of them for training, which needs at least 1: take more lines or keep "
                     "fewer for validation and test",
                     parts.name, sizes_.total());
  add_sequences(Split::train, ends, std::span(order).first(sizes_.train));
  add_sequences(Split::validation, ends, std::span(order).subspan(sizes_.train, sizes_.validation));
  add_sequences(Split::test, ends, std::span(order).last(sizes_.test));
  const auto num_tokens = static_cast<int64_t>(tokens_.size());
  fingerprint_.emplace(Fingerprint::Parts{num_tokens, checksum_of_tokens(num_tokens, reader()), sizes_,
                                          fmt::format("lines in the order of seed {}", split_seed)},
                       *tokenizer_);
}

void LineDataset::add_sequences(Split split, std::span<const int64_t> ends, std::span<const int64_t> lines) {
  std::vector<Sequence>& sequences = sequences_[static_cast<size_t>(split)];
  int64_t count = 0;
  for (const int64_t line : lines) count += sequences_to_cover(ends[line + 1] - ends[line], seq_len_);
  sequences.reserve(static_cast<size_t>(count));
  for (const int64_t line : lines) {
    for (int64_t first = ends[line]; first < ends[line + 1]; first += seq_len_) {
      sequences.push_back({first, std::min(seq_len_, ends[line + 1] - first)});
    }
  }
}

void LineDataset::require_seq_len(int64_t seq_len) const {
  require<ValueError>(seq_len == seq_len_, "sequences of {} tokens, the lines were cut for model.seq_len = {}", seq_len,
                      seq_len_);
}

void LineDataset::fill(const Sequence& sequence, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  require_seq_len(static_cast<int64_t>(inputs.size()));
  shift_padded_sequence(std::span(tokens_).subspan(sequence.first, sequence.num_targets + 1), inputs, targets);
}

void LineDataset::train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs,
                                 std::span<int32_t> targets) const {
  require<ValueError>(row >= 0, "train_sequence: row {}, the first is 0", row);
  const std::vector<Sequence>& sequences = sequences_of(Split::train);
  const RandomStream stream = text_stream(seed_, TextRandomPlace::train_sequences, step);
  fill(sequences[random_below(stream, static_cast<uint64_t>(row), static_cast<int64_t>(sequences.size()))], inputs,
       targets);
}

int64_t LineDataset::num_eval_sequences(Split split, int64_t seq_len) const {
  require_seq_len(seq_len);
  return static_cast<int64_t>(sequences_of(split).size());
}

void LineDataset::eval_sequence(Split split, int64_t index, std::span<int32_t> inputs,
                                std::span<int32_t> targets) const {
  const std::vector<Sequence>& sequences = sequences_of(split);
  require<ValueError>(0 <= index && index < static_cast<int64_t>(sequences.size()), "eval_sequence: sequence {} of {}",
                      index, sequences.size());
  fill(sequences[index], inputs, targets);
}

ReadTokens LineDataset::reader() const {
  return [this](int64_t first, std::span<int32_t> tokens) {
    std::copy_n(tokens_.begin() + first, tokens.size(), tokens.begin());
  };
}

bool LineDataset::matches_fingerprint(const std::string& stored) const {
  return fingerprint_->matches(stored, reader());
}

}  // namespace heed::data
