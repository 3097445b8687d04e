// RUN@STEP: the state of a run after any of its steps.
//
// What a run computes follows from its config, its seeds and the step alone. So the nearest checkpoint before STEP (or
// the initial weights) and the training steps after it give the weights of STEP again, bit for bit. That is checked:
// each repeated step must have the loss, gradient norm, learning rate and tokens of its row in metrics.csv.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint_content.hpp"
#include "train/trainer/pretrained.hpp"

namespace heed::train {

struct RunStep {
  std::filesystem::path run;  // the run folder
  int64_t step = 0;
};

// The parts of "RUN@STEP", STEP being a decimal number. nullopt for any other text, and for the name of an existing
// file or folder.
std::optional<RunStep> parse_run_step(const std::string& argument);

// A checkpoint that is named on the command line.
struct NamedCheckpoint {
  CheckpointContent content;
  std::string name;           // the file, or RUN@STEP
  std::filesystem::path run;  // the folder that the checkpoint belongs to, if it is a run folder
  // RUN@STEP only: the file from which the repeated steps began (empty: the initial weights), their number, which is 0
  // if the file is that of STEP, and the time that they took.
  std::string first_file = {};
  int64_t repeated_steps = 0;
  double seconds = 0;
};

// argument: a checkpoint file, a run folder (its checkpoints/last.h5), or RUN@STEP. read: for train.init_from. Nothing
// is written. Throws what checkpoint_of(), load_checkpoint(), Trainer and restore() throw; for RUN@STEP also
// ConfigError if the run has not done this step, and CheckpointError if a repeated step differs from metrics.csv, as it
// does if the run was trained on another machine, on several ranks, or by another version of heed.
NamedCheckpoint load_named_checkpoint(const std::string& argument, const ReadPretrained& read);

// The same for RUN@STEP in its parts, whatever files have such a name.
NamedCheckpoint rebuild(const RunStep& at, const ReadPretrained& read);

// What RUN@STEP costs, by the checkpoints of the run.
struct RebuildCost {
  int64_t last_step = 0;        // the last step that the run has done
  std::vector<int64_t> steps;   // of the checkpoints, ascending
  int64_t most_steps = 0;       // to be repeated, for the worst STEP
  double seconds_per_step = 0;  // of the run
};
// Throws ConfigError if there is no run.
RebuildCost rebuild_cost(const std::filesystem::path& run);

}  // namespace heed::train
