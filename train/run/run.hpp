// A whole training run: steps, evaluations, files and console output.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "train/comm/process_group.hpp"
#include "train/config/config.hpp"
#include "train/run/summary.hpp"
#include "train/trainer/pretrained.hpp"

namespace heed::train {

struct RunOptions {
  bool resume = false;  // continue from the newest checkpoint of train.run_dir
  // Reads train.init_from.
  ReadPretrained read_pretrained = {};
  // Called by the root with the run folder when the run has done all its steps or has diverged, after summary.json is
  // written. Returns a line for the log. It must not throw.
  std::function<std::string(const std::filesystem::path& folder)> plot = {};
  // Called after plot. Returns the same picture as the bytes of a PNG, for TensorBoard; empty if it cannot be drawn. It
  // must not throw.
  std::function<std::string(const std::filesystem::path& folder)> png = {};
};

// Stops after train.stop_after steps if that is set, or after the step during which a signal arrived
// (train/run/stop_signal.hpp, Summary::stop_signal); in each case with a checkpoint, and with a summary.json that
// states the reason. An error between steps, such as data that cannot be read, also leaves a checkpoint of the last
// complete step. Throws what Trainer, RunFolder and CheckpointFolder throw; DivergedError if a training or validation
// loss is not finite: such a state is saved neither as last.h5 nor as best.h5.
Summary run_training(const Config& config, const RunOptions& options = {});
// The same on several ranks: the root writes and prints, and a signal to any rank stops all of them after the same
// step. Collective.
Summary run_training(const Config& config, const RunOptions& options, comm::ProcessGroup& ranks);

}  // namespace heed::train
