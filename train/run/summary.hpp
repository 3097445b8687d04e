// summary.json: the results of a run, also of one that was stopped or failed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// A run that was killed keeps the status "running".
enum class RunStatus { running, completed, stopped, diverged, failed };

// "running", "completed" …
const char* status_name(RunStatus status);

struct Summary {
  RunStatus status = RunStatus::running;
  // Why the run did not complete: "SIGINT", "train.stop_after = 100", the error; empty if it did.
  std::string reason = {};
  int stop_signal = 0;  // the signal that ended the run, 0 if none did
  int64_t steps = 0, parameters = 0;
  std::optional<double> train_loss = {};
  // The validation loss after the last step, and the number of targets over which it is the mean.
  std::optional<double> val_loss = {};
  std::optional<int64_t> val_targets = {};
  std::optional<double> bits_per_byte = {};
  // The lowest validation loss; the mean over the targets of train.eval_batches batches, which may differ from those of
  // val_loss.
  std::optional<double> best_val_loss = {};
  std::optional<int64_t> best_val_targets = {};
  std::optional<double> test_loss = {}, entropy = {}, excess = {};
  std::optional<double> val_loss_ema = {}, test_loss_ema = {};  // of the averaged weights (optim.ema_decay)
  std::vector<data::ContextEntropy> entropies = {};             // Dataset::entropies(): empty if the dataset has none
  double tokens_per_s = 0;                                      // during training steps
  double seconds = 0;                                           // total
  int64_t peak_memory_bytes = 0;
  // Seconds per step of waiting for other ranks, on the CPU: the mean over the ranks. Empty for one rank.
  std::optional<double> waited_s_per_step = {};
};

// Sets status and reason of a run that has ended, from its steps, stop_signal and `failure`, which is empty if it did
// not fail.
void set_status(Summary& summary, const Config& config, const std::string& failure);

// All steps of the run are done, so that its losses can be compared with those of other runs.
bool is_complete(const Summary& summary, const Config& config);

std::string summary_to_json(const Summary& summary, const Config& config);

}  // namespace heed::train
