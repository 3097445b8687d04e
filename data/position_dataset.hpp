// Dataset of sequences from one long list of tokens, split by position: train | validation | test.
//
//   training    a split of N tokens has num_sequences(N, T) = N - T sequences; row r of step s is the one that starts
//   at
//               random_below(stream of (seed, s), r, N - T)
//   evaluation  the whole split with stride T: the inputs of sequence i start at i·T, and every target 1 … N - 1 occurs
//               exactly once; the last sequence may be shorter, its remaining targets are ignored
#pragma once

#include <memory>

#include "data/dataset.hpp"
#include "data/fingerprint.hpp"
#include "data/splits.hpp"
#include "data/text/tokenizer.hpp"
#include "data/token_sequence.hpp"

namespace heed::data {

inline constexpr const char* kSplitKeys = "data.val_fraction and data.test_fraction";

class PositionDataset final : public Dataset {
 public:
  struct Parts {
    std::string name;  // of the file, for error messages
    std::shared_ptr<const Tokenizer> tokenizer;
    std::unique_ptr<TokenSequence> tokens;
    SplitSizes sizes;
    uint32_t seed = 0;
    std::string split_keys = kSplitKeys;  // config keys that define the sizes, for error messages
    std::string text_changes = {};
  };

  // Throws DataError with the file and the numbers of tokens available and required, unless training, and each of
  // validation and test that is not empty, has a sequence of seq_len; ConfigError if seq_len < 1; ValueError if the
  // sizes do not add up to the number of tokens.
  PositionDataset(Parts parts, int64_t seq_len);

  int64_t vocab_size() const override { return parts_.tokenizer->vocab_size(); }
  const Tokenizer* tokenizer() const override { return parts_.tokenizer.get(); }
  void train_sequence(uint64_t step, int64_t row, std::span<int32_t> inputs, std::span<int32_t> targets) const override;
  int64_t num_eval_sequences(Split split, int64_t seq_len) const override;
  void eval_sequence(Split split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override;

  std::string fingerprint() const override { return fingerprint_.text(); }
  bool matches_fingerprint(const std::string& stored) const override;

  std::string text_changes() const override { return parts_.text_changes; }

  const SplitSizes& sizes() const { return parts_.sizes; }

 private:
  int64_t begin_of(Split split) const;
  int64_t size_of(Split split) const;

  Parts parts_;
  Fingerprint fingerprint_;
};

// The check of the constructor, for callers that have only the number of tokens.
void require_sequences(const std::string& name, const SplitSizes& sizes, int64_t seq_len,
                       const std::string& split_keys = kSplitKeys);

}  // namespace heed::data
