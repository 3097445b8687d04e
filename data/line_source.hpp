// One line of a text is one sequence: end token, its tokens, end token; the second end token is a target like the
// others.
//
// Lines are shuffled by the seed and then cut: train | validation | test. A window holds one line; what is left of it
// has input 0 and no target. The targets of a line longer than seq_len are spread over several windows, seq_len in each
// but the last, and each window begins anew: it knows nothing of the ones before.
//
//   training    row r of update s is window random_below(stream of (seed, s), r, number of windows) of the training
//               lines: every target is as likely as any other
//   evaluation  all windows of the split's lines, so each target exactly once
//
// An empty line is a sequence too: its only target is the end token. What follows the last line feed is a line unless
// it is empty.
#pragma once

#include <memory>

#include "data/fingerprint.hpp"
#include "data/source.hpp"
#include "data/splits.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

class LineSource final : public Source {
 public:
  struct Parts {
    std::string name;  // of the file, for error texts
    std::shared_ptr<const Tokenizer> tokenizer;
    // Lines, each closed by the end token; the last one may lack it. With capacity for two tokens more they are not
    // copied.
    std::vector<int32_t> tokens;
    LineSplitConfig split;
    uint32_t seed = 0;
    std::string text_changes = {};
  };

  // Memory beside the tokens, at least: a line's place and number while it is made, and a window.
  static constexpr int64_t kBytesPerLine = 32;

  // All windows have seq_len targets. Throws ValueError if the tokenizer has no end token; ConfigError as
  // split_lines(); DataError naming the file and its number of lines if training has none.
  LineSource(Parts parts, int64_t seq_len);

  int64_t vocab_size() const override { return tokenizer_->vocab_size(); }
  const Tokenizer* tokenizer() const override { return tokenizer_.get(); }

  // The functions below throw ValueError unless they are asked for windows of the constructor's seq_len.
  void train_window(uint64_t step, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  int64_t num_eval_windows(Split split, int64_t seq_len) const override;
  void eval_window(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override;

  std::string fingerprint() const override { return fingerprint_->text(); }
  bool matches_fingerprint(const std::string& stored) const override;

  std::string text_changes() const override { return text_changes_; }

  const SplitSizes& sizes() const { return sizes_; }  // in lines

 private:
  // Tokens first … first + num_targets of the text: one more than there are targets.
  struct Window {
    int64_t first = 0;
    int64_t num_targets = 0;
  };

  // The windows of these lines; line i lies between the end tokens ends[i] and ends[i + 1].
  void add_windows(Split split, std::span<const int64_t> ends, std::span<const int64_t> lines);
  const std::vector<Window>& windows_of(Split split) const { return windows_[static_cast<size_t>(split)]; }
  void fill(const Window& window, std::span<int32_t> inputs, std::span<int32_t> targets) const;
  void require_seq_len(int64_t seq_len) const;
  ReadTokens reader() const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<int32_t> tokens_;  // end token, line, end token, line, … end token
  uint32_t seed_;
  std::string text_changes_;
  int64_t seq_len_;
  SplitSizes sizes_;
  std::vector<Window> windows_[3];
  std::optional<Fingerprint> fingerprint_;
};

}  // namespace heed::data
