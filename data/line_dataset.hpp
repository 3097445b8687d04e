// Dataset in which each line of a text is one sequence: end token, its tokens, end token. The second end token is a
// target like the others.
//
// Lines are shuffled with split_seed and then split: train | validation | test. A sequence holds one
// line, padded with input 0 and ignored targets. A line of more than seq_len targets is split over several examples,
// each with seq_len targets except the last. Each example is independent: it has no context from the previous ones.
//
//   training    row r of step s is example random_below(stream of (seed, s), r, number of examples) of the training
//               lines: all examples are equally likely, and so are all targets
//   evaluation  all examples of the lines of the split, so each target exactly once
//
// An empty line is also a sequence: its only target is the end token. The text after the last line feed is a line
// unless it is empty.
#pragma once

#include <memory>

#include "data/dataset.hpp"
#include "data/fingerprint.hpp"
#include "data/splits.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

class LineDataset final : public Dataset {
 public:
  struct Parts {
    std::string name;  // of the file, for error messages
    std::shared_ptr<const Tokenizer> tokenizer;
    // Lines, each terminated by the end token; the last one may lack it. If the capacity has room for two more tokens,
    // they are not copied.
    std::vector<int32_t> tokens;
    LineSplitConfig split;
    uint32_t seed = 0;                        // of the order of the training sequences
    std::optional<uint32_t> split_seed = {};  // of the shuffled lines; by default `seed`
    std::string text_changes = {};
  };

  // Minimum memory per line, in addition to the tokens: its position and its shuffled index (during construction), and
  // a Sequence.
  static constexpr int64_t kBytesPerLine = 32;

  // All sequences have seq_len targets. Throws ConfigError if seq_len < 1, or as split_lines(); ValueError if the
  // tokenizer has no end token; DataError with the file and its number of lines if no line is left for training.
  LineDataset(Parts parts, int64_t seq_len);

  int64_t vocab_size() const override { return tokenizer_->vocab_size(); }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

  // The functions below throw ValueError unless seq_len is that of the constructor.
  void train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  int64_t num_eval_sequences(Split split, int64_t seq_len) const override;
  void eval_sequence(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override;

  std::string fingerprint() const override { return fingerprint_->text(); }
  bool matches_fingerprint(const std::string& stored) const override;

  std::string text_changes() const override { return text_changes_; }

  const SplitSizes& sizes() const { return sizes_; }  // in lines

 private:
  // Tokens first … first + num_targets of the text: one more than the targets.
  struct Sequence {
    int64_t first = 0;
    int64_t num_targets = 0;
  };

  // Adds the sequences of `lines`; line i is between the end tokens at ends[i] and ends[i + 1].
  void add_sequences(Split split, std::span<const int64_t> ends, std::span<const int64_t> lines);
  const std::vector<Sequence>& sequences_of(Split split) const { return sequences_[static_cast<size_t>(split)]; }
  void fill(const Sequence& sequence, std::span<int32_t> inputs, std::span<int32_t> targets) const;
  void require_seq_len(int64_t seq_len) const;
  ReadTokens reader() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> tokens_;  // end token, line, end token, line, … end token
  uint32_t seed_;
  std::string text_changes_;
  int64_t seq_len_;
  SplitSizes sizes_;
  std::vector<Sequence> sequences_[3];
  std::optional<Fingerprint> fingerprint_;
};

}  // namespace heed::data
