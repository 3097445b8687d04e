// SyntheticDataset is the base class of the datasets whose sequences are drawn from a known distribution, so that the
// loss of a perfect model (the Bayes predictor) is known for every target.
//
// Each step draws its own training sequences: their random numbers are those of (seed, step, row). The evaluation
// sequences of a split have a separate random site, so that evaluation never uses the random numbers of training. A
// split has at least kMinEvalTargets evaluation targets.
//
// A dataset of this kind says how a sequence is drawn, which probability each token has given all tokens before it, and
// which simpler strategies a model passes on its way: their mean losses mark the stages of learning.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "data/dataset.hpp"
#include "data/synthetic/sampling.hpp"

namespace heed::data {

class SyntheticDataset : public Dataset {
 public:
  static constexpr int64_t kMinEvalTargets = 100'000;

  int64_t vocab_size() const final { return vocab_size_; }
  void train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) const final;
  int64_t num_eval_sequences(Split split, int64_t seq_len) const override;
  void eval_sequence(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const final;

  // Also throws ValueError if a target is neither ignored nor the next input, or if a target at a position before
  // first_target is not ignored: such a token is given, not predicted.
  std::optional<std::vector<double>> target_losses(std::span<const int32_t> inputs,
                                                   std::span<const int32_t> targets) const final;

  // Computed once for each seq_len.
  std::vector<ContextEntropy> entropies(int64_t seq_len) const final;

 protected:
  // first_target: the targets at positions below it are ignored.
  SyntheticDataset(int64_t vocab_size, uint32_t seed, int64_t first_target = 0)
      : vocab_size_(vocab_size), seed_(seed), first_target_(first_target) {}

  // Fills `tokens` (at least 2) with sequence `row` of the stream. Two rows of one stream share no random numbers.
  // Throws ShapeError if sequences have another length.
  virtual void draw_train(const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const = 0;
  virtual void draw_eval(Split /*split*/, const RandomStream& stream, int64_t row, std::span<int32_t> tokens) const {
    draw_train(stream, row, tokens);
  }

  // result[i] = ln p(tokens[i + 1] | tokens[0 … i]) for each i from first_target on; -inf if that is 0. result has one
  // element less than tokens.
  virtual void log_probabilities(std::span<const int32_t> tokens, std::span<double> result) const = 0;

  virtual std::vector<ContextEntropy> find_entropies(int64_t seq_len) const = 0;

  // What a model may have learned on its way to the Bayes predictor: writes the logarithms of its probabilities, in the
  // form of log_probabilities().
  struct Strategy {
    std::optional<int64_t> context_tokens;
    std::string name;
    std::function<void(std::span<const int32_t> tokens, std::span<double> result)> log_probabilities;
  };
  // The mean losses of the strategies, and of the Bayes predictor as last entry `best`, over the same num_sequences
  // sequences, which are the same for every data.seed; with the standard errors of the means.
  std::vector<ContextEntropy> monte_carlo_losses(std::vector<Strategy> strategies, const std::string& best,
                                                 int64_t seq_len, int64_t num_sequences) const;
  static RandomStream reference_stream() { return synthetic_stream(0, RandomPlace::reference_sequences, 0); }

 private:
  void check_targets(std::span<const int32_t> inputs, std::span<const int32_t> targets) const;
  void shift_masked(std::span<const int32_t> tokens, std::span<int32_t> inputs, std::span<int32_t> targets) const;

  int64_t vocab_size_;
  uint32_t seed_;
  int64_t first_target_;
  mutable std::mutex mutex_;
  mutable std::map<int64_t, std::vector<ContextEntropy>> entropies_;  // by seq_len
};

// Name of a context of the last `context_tokens` tokens: "unigram", "bigram", "trigram", "4-gram" …
std::string context_name(int64_t context_tokens);

}  // namespace heed::data
