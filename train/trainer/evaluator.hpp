// Evaluation: the loss on a split, compared with the dataset's own loss on the very same targets.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "train/comm/process_group.hpp"

namespace heed::train {

// The weights that are evaluated: those after the last step, or their moving average (optim.ema_decay).
enum class EvaluatedWeights { last, average };

// For output after the step of a checkpoint: "" or ", averaged weights".
inline const char* weights_text(EvaluatedWeights weights) {
  return weights == EvaluatedWeights::average ? ", averaged weights" : "";
}

struct Evaluation {
  double loss = 0;  // mean over the targets, nats
  int64_t targets = 0;
  int64_t sequences = 0;
  bool whole_split = false;
  int64_t target_bytes = 0;  // bytes of text that the targets decode to; 0 without a tokenizer
  // Paired difference: the model's loss minus the dataset's own loss on the same targets, so sampling noise cancels.
  // Empty if the dataset has no exact distribution.
  std::optional<double> excess = {};
  // The loss of the averaged weights on the same targets, where both were evaluated.
  std::optional<double> loss_ema = {};

  // Loss in bits per byte of text; empty if target_bytes is 0.
  std::optional<double> bits_per_byte() const;
};

// Sums over the targets at each position of a sequence: the target at position i has i + 1 tokens as context.
struct PositionLosses {
  std::vector<double> losses;  // nats
  std::vector<int64_t> targets;
};

// Called before the first batch and after each one, with the number of batches that this rank has done and its total.
// Returns false to stop the evaluation; after the last batch that has no effect.
using EvaluationProgress = std::function<bool(int64_t done, int64_t total)>;

// Evaluates max_batches batches of train.batch_size sequences (0: the whole split), each sequence once. A forward pass
// processes at least rows_per_batch sequences, which changes rounding only. The ranks divide the batches among them;
// collective, with the same result on all. Runs without dropout, records no graph, and draws no random number of
// training. Throws DataError if no sequence has a target.
Evaluation evaluate(const nn::Gpt& model, const data::Dataset& dataset, const data::BatchLoader& loader,
                    data::Split split, int64_t rows_per_batch, int64_t max_batches, comm::ProcessGroup& ranks);
// The same, with a progress callback, and the sums of this rank's share by position in `positions`. Returns nullopt on
// all ranks if the callback of any rank stopped it; the other ranks finish their batches first.
std::optional<Evaluation> evaluate(const nn::Gpt& model, const data::Dataset& dataset, const data::BatchLoader& loader,
                                   data::Split split, int64_t rows_per_batch, int64_t max_batches,
                                   comm::ProcessGroup& ranks, const EvaluationProgress& progress,
                                   PositionLosses* positions = nullptr);

// Sequences of seq_len tokens in one forward pass without an autograd graph: at least rows_per_batch. More rows fit
// into memory than in training, and small models are faster with enough tokens in a pass, as long as the logits stay
// small.
int64_t rows_at_a_time(const nn::Gpt& model, int64_t seq_len, int64_t rows_per_batch);

// This rank's share of evaluate(), without its result and without waiting for the other ranks: to find out which
// operation makes a NaN.
void evaluate_share(const nn::Gpt& model, const data::Dataset& dataset, const data::BatchLoader& loader,
                    data::Split split, int64_t rows_per_batch, int64_t max_batches, const comm::ProcessGroup& ranks);

}  // namespace heed::train
