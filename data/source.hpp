// Where tokens come from: the interface of every data source.
//
// A window is seq_len + 1 tokens in a row; inputs are its first seq_len tokens, targets its last. A target at input
// position i therefore has i + 1 tokens before it. Sources shift by shift_window(), and nothing else shifts.
//
// Every function is a pure function of its arguments and the source's seed, and may be called from several threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace heed::data {

class Tokenizer;

enum class Split { train, validation, test };

// A target that does not count: no loss, no gradient.
inline constexpr int32_t kIgnoreTarget = -1;

// The best mean loss in reach of a model that sees only the last `context_tokens` tokens.
struct ContextEntropy {
  int64_t context_tokens = 0;
  double nats = 0;
  std::string name;  // "unigram", "bigram", "trigram", "4-gram" …
};

class Source {
 public:
  virtual ~Source() = default;

  virtual int64_t vocab_size() const = 0;

  // What turns text into this source's tokens and back; nullptr where tokens stand for no text.
  virtual const Tokenizer* tokenizer() const { return nullptr; }

  // Describes the data as they were when the source was constructed (data/fingerprint.hpp): it stays the same whatever
  // becomes of the files. Empty where the config says it all.
  virtual std::string fingerprint() const { return {}; }

  // Whether `stored`, the fingerprint() that this or an earlier version of heed wrote, is of the same data. May read
  // the tokens, and throw what that throws.
  virtual bool matches_fingerprint(const std::string& stored) const { return stored.empty(); }

  // How the tokens differ from the bytes of the text file, for the user: "byte order mark removed, 12 CRLF line endings
  // converted to LF" (data/text/text_form.hpp); empty: not at all.
  virtual std::string text_changes() const { return {}; }

  // Row `row` of the global batch of update `step`. inputs and targets have seq_len >= 1 entries each.
  // Throws ShapeError if their sizes differ or are 0, ValueError if row < 0.
  virtual void train_window(uint64_t step, int64_t row, std::span<int32_t> inputs,
                            std::span<int32_t> targets) const = 0;

  // The evaluation windows of a split: a fixed list, the same in every evaluation. Throws ValueError outside it.
  virtual int64_t num_eval_windows(Split split, int64_t seq_len) const = 0;
  virtual void eval_window(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const = 0;

  // The source's own loss on these targets, in nats: the sum of -ln p(target | the inputs up to it), ignored targets
  // left out; what stood before the window is not known to it, as it is not to a model. +inf if a token is impossible.
  // nullopt where the source has no exact law. Throws ShapeError, and ValueError for a token outside the vocabulary.
  virtual std::optional<double> log_loss(std::span<const int32_t> /*inputs*/,
                                         std::span<const int32_t> /*targets*/) const {
    return std::nullopt;
  }

  // Entry k: the mean over the seq_len target positions i of H(x | min(i + 1, k) tokens before it), in nats. The last
  // entry is the entropy of the source: the mean loss of a perfect model. Empty where the source has no exact law.
  virtual std::vector<ContextEntropy> entropies(int64_t /*seq_len*/) const { return {}; }
};

// inputs = tokens[0 … T-1], targets = tokens[1 … T]. Throws ShapeError unless tokens has T + 1 >= 2 entries and inputs
// and targets T.
void shift_window(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets);

}  // namespace heed::data
