// A whole training run: updates, evaluations, files and what is printed.
#pragma once

#include "train/comm/ranks.hpp"
#include "train/config.hpp"
#include "train/metrics.hpp"

namespace heed::train {

struct RunOptions {
  bool resume = false;  // go on from the newest checkpoint of train.run_dir
};

// Ends after train.stop_after updates where that is set, or at the update boundary after SIGINT, SIGTERM or SIGUSR1;
// in each case with a checkpoint. Throws what Trainer, RunFolder and CheckpointFolder throw.
Summary run_training(const Config& config, const RunOptions& options = {});
// By several ranks: the root writes and prints, and a signal to any of them ends all at the same update. Collective.
Summary run_training(const Config& config, const RunOptions& options, comm::Ranks& ranks);

}  // namespace heed::train
