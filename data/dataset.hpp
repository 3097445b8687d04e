// Dataset is the interface of all datasets; the functions after it are what datasets make their sequences with.
//
// A sequence is seq_len + 1 consecutive tokens: the inputs are the first seq_len tokens, the targets the last
// seq_len tokens. The target at position i therefore has i + 1 preceding tokens. Datasets shift with shift_sequence(),
// and no other code shifts.
//
// Every function is a pure function of its arguments and the seed of the dataset, and is thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/core/philox.hpp"

namespace heed::data {

class Tokenizer;

enum class Split { train, validation, test };

// A target that is ignored: no loss, no gradient.
inline constexpr int32_t kIgnoreTarget = -1;

// A loss to compare a model with: the lowest mean loss with a context of only the last `context_tokens` tokens, or the
// mean loss of another strategy that is simpler than the best one.
struct ContextEntropy {
  std::optional<int64_t> context_tokens;  // empty: not a context of the last tokens
  double nats = 0;
  std::string name;           // "unigram", "bigram", "trigram", "4-gram" …; the dataset's header defines other names
  double standard_error = 0;  // of `nats`, if it is a Monte-Carlo mean; 0: exact
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t vocab_size() const = 0;

  // Converts text to the tokens of this dataset and back; nullptr if the tokens do not represent text.
  virtual const Tokenizer* tokenizer() const { return nullptr; }

  // Identifies the data at the time when the dataset was constructed (data/fingerprint.hpp); later changes of the files
  // do not affect it. Empty if the config defines the data completely.
  virtual std::string fingerprint() const { return {}; }

  // Whether `stored`, the fingerprint() of this or an earlier version of heed, identifies the same data. May read the
  // tokens, and throws the errors of reading them.
  virtual bool matches_fingerprint(const std::string& stored) const { return stored.empty(); }

  // Differences between the tokens and the bytes of the text file, for the user: "byte order mark removed, 12 CRLF line
  // endings converted to LF" (data/text/text_file.hpp); empty if there are none.
  virtual std::string text_changes() const { return {}; }

  // Writes row `row` of the global batch of training step `step`. inputs and targets have seq_len >= 1 elements each.
  // Throws ShapeError if their sizes differ or are 0, ValueError if row < 0.
  virtual void train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs,
                              std::span<int32_t> targets) const = 0;

  // The evaluation sequences of a split: a fixed list, the same in every evaluation. Throws ValueError if `index` is
  // out of range.
  virtual int64_t num_eval_sequences(Split split, int64_t seq_len) const = 0;
  virtual void eval_sequence(Split split, int64_t index, std::span<int32_t> inputs,
                             std::span<int32_t> targets) const = 0;

  // The loss of the exact distribution on each target, in nats: -ln p(target | inputs up to its position), 0 for a
  // target that is ignored. Tokens before the sequence are not part of the context, as for a model. +inf if a target
  // has probability 0. nullopt if the dataset has no exact distribution. Throws ShapeError; ValueError for a token
  // outside the vocabulary.
  virtual std::optional<std::vector<double>> target_losses(std::span<const int32_t> /*inputs*/,
                                                           std::span<const int32_t> /*targets*/) const {
    return std::nullopt;
  }
  // Their sum.
  std::optional<double> log_loss(std::span<const int32_t> inputs, std::span<const int32_t> targets) const;

  // Reference losses in nats, means over the targets of a sequence, from the simplest strategy to the best. An entry
  // with k context tokens is the mean over the positions i of H(x | the min(i + 1, k) preceding tokens). The last entry
  // is the entropy of the dataset: the mean loss of a perfect model. Empty if the dataset has no exact distribution.
  virtual std::vector<ContextEntropy> entropies(int64_t /*seq_len*/) const { return {}; }
};

// inputs = tokens[0 … T-1], targets = tokens[1 … T]. Throws ShapeError unless tokens has T + 1 >= 2 elements and inputs
// and targets have T each.
void shift_sequence(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets);

// As shift_sequence(), for 2 … T + 1 tokens: pads inputs with 0 and targets with kIgnoreTarget.
void shift_padded_sequence(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets);

// Number of sequences of seq_len inputs in num_tokens tokens, one per start position: num_tokens - seq_len, since each
// sequence needs one more token for its last target; 0 if there are too few tokens. Throws ValueError if num_tokens < 0
// or seq_len < 1.
int64_t num_sequences(int64_t num_tokens, int64_t seq_len);

// Number of sequences of T = seq_len targets that cover num_targets targets; the last one may be partial.
int64_t sequences_to_cover(int64_t num_targets, int64_t seq_len);

// Places of the random numbers of texts, distinct from those of the synthetic datasets (RandomPlace in
// data/synthetic/sampling.hpp).
enum class TextRandomPlace : uint32_t { train_sequences = 16, line_order = 17 };

RandomStream text_stream(uint32_t seed, TextRandomPlace place, uint64_t step);

// Uniform random integer in [0, count): floor(uniform(index) · count). count is at most 2^52.
int64_t random_below(const RandomStream& stream, uint64_t index, int64_t count);

}  // namespace heed::data
