// summary.json: what came out of a run, also of one that was stopped or failed.
#pragma once

#include <optional>
#include <string>

#include "train/config/config.hpp"

namespace heed::train {

// A run that was killed leaves "running".
enum class RunStatus { running, completed, stopped, diverged, failed };

struct Summary {
  RunStatus status = RunStatus::running;
  std::string reason =
      {};               // why it did not complete: "SIGINT", "train.stop_after = 100", the error; empty where it did
  int stop_signal = 0;  // that ended it, 0 if none did
  int64_t steps = 0, parameters = 0;
  std::optional<double> train_loss = {};
  // Of the last step, and the targets that it is the mean of.
  std::optional<double> val_loss = {};
  std::optional<int64_t> val_targets = {};
  std::optional<double> bits_per_byte = {};
  // Of the best step; over the targets of train.eval_batches batches, which need not be those of val_loss.
  std::optional<double> best_val_loss = {};
  std::optional<int64_t> best_val_targets = {};
  std::optional<double> test_loss = {}, entropy = {}, excess = {};
  double tokens_per_s = 0;  // during training steps
  double seconds = 0;       // in all
  int64_t peak_memory_bytes = 0;
  // How long a step waits for other ranks, on the CPU: the mean of the ranks. Empty for one rank.
  std::optional<double> waited_s_per_update = {};
};

std::string summary_to_json(const Summary& summary, const Config& config);

}  // namespace heed::train
