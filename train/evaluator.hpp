// The loss on a split, and beside it what the source itself would lose on the very same targets.
#pragma once

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

// max_batches batches of train.batch_size windows, 0: the whole split; each window once, and at least rows_per_batch at
// a time, which changes rounding only. Ranks share them out; collective, with the same result on all. Runs without
// dropout and keeps no graph, and draws no random number of training.
Evaluation evaluate(const nn::Gpt& model, const data::Source& source, const data::BatchLoader& loader,
                    data::Split split, int64_t rows_per_batch, int64_t max_batches, comm::Ranks& ranks);

}  // namespace heed::train
