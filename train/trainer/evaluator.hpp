// The loss on a split, and beside it what the source itself would lose on the very same targets.
#pragma once

#include <functional>
#include <optional>

#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "train/comm/ranks.hpp"

namespace heed::train {

struct Evaluation {
  double loss = 0;  // mean over the targets, nats
  int64_t targets = 0;
  int64_t windows = 0;
  bool whole_split = false;
  int64_t target_bytes = 0;  // of text that the targets stand for; 0 where they stand for none
  // Paired: the model's loss minus the source's own on the same targets, so sampling noise cancels. Empty where the
  // source has no exact law.
  std::optional<double> excess = {};

  // Nothing where the targets stand for no text.
  std::optional<double> bits_per_byte() const;
};

// Called before the first batch and after each one with the batches that this rank has done and those it has to do.
// Returns false to stop the evaluation; after the last batch that has no effect.
using EvaluationProgress = std::function<bool(int64_t done, int64_t total)>;

// max_batches batches of train.batch_size windows, 0: the whole split; each window once, and at least rows_per_batch at
// a time, which changes rounding only. Ranks share them out; collective, with the same result on all. Runs without
// dropout and keeps no graph, and draws no random number of training. Throws DataError where no window has a target.
Evaluation evaluate(const nn::Gpt& model, const data::Source& source, const data::BatchLoader& loader,
                    data::Split split, int64_t rows_per_batch, int64_t max_batches, comm::Ranks& ranks);
// The same, with progress. Returns nullopt on all ranks where it was stopped on any of them; a rank that was not told
// to stop finishes its batches first.
std::optional<Evaluation> evaluate(const nn::Gpt& model, const data::Source& source, const data::BatchLoader& loader,
                                   data::Split split, int64_t rows_per_batch, int64_t max_batches, comm::Ranks& ranks,
                                   const EvaluationProgress& progress);

}  // namespace heed::train
