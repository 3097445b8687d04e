// A whole training run: steps, evaluations, files and what is printed.
#pragma once

#include "train/comm/ranks.hpp"
#include "train/config/config.hpp"
#include "train/run/summary.hpp"

namespace heed::train {

struct RunOptions {
  bool resume = false;  // continue from the newest checkpoint of train.run_dir
};

// Ends after train.stop_after steps where that is set, or after the step at which a signal came
// (train/run/stop_signal.hpp, Summary::stop_signal); in each case with a checkpoint, and with a summary.json that says
// how. An error between steps, such as data that cannot be read, also leaves a checkpoint of the last whole step.
// Throws what Trainer, RunFolder and CheckpointFolder throw; DivergedError where a training or validation loss is not
// finite: such a state becomes neither last.h5 nor best.h5.
Summary run_training(const Config& config, const RunOptions& options = {});
// By several ranks: the root writes and prints, and a signal to any of them ends all at the same step. Collective.
Summary run_training(const Config& config, const RunOptions& options, comm::Ranks& ranks);

}  // namespace heed::train
