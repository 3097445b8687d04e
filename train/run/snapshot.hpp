// Saves a run at a step boundary as checkpoint content, and restores it.
//
//   parameters/<name>                      weights, by name and shape: the layout in memory is not stored
//   optimizer/<moment>/<name>              optimizer state of each parameter; moment ema: the averaged weights
//   step, optimizer_steps, tokens, seconds, wall_seconds, train_loss
//   best_val_loss, best_val_targets, best_val_windows (sequences), evaluation_pending
//   config                                 the resolved config as TOML
//   tokenizer                              serialized, if the dataset has one
//   data                                   fingerprint of the dataset
// Random numbers and the position in the data are functions of the seeds, which are in the config, and of step.
#pragma once

#include <memory>
#include <optional>

#include "data/text/tokenizer.hpp"
#include "train/checkpoint/checkpoint_content.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {

// State of a run between steps, in addition to that of the trainer.
struct RunState {
  int64_t tokens = 0;       // targets processed
  double seconds = 0;       // spent in training steps
  double wall_seconds = 0;  // since the start, including evaluations and files
  std::optional<double> train_loss = {};
  std::optional<double> best_val_loss = {};
  // The targets over which best_val_loss is the mean, and the sequences that contain them.
  int64_t best_val_targets = 0, best_val_sequences = 0;
  bool evaluation_pending = false;  // due after this step, but stopped by a signal
};

// Collective. The root's content is the checkpoint; on other ranks it has no tensors.
CheckpointContent snapshot(const Trainer& trainer, const RunState& state);

// Restores the trainer to the state in the checkpoint, on each rank separately. Throws ConfigError, one line, for keys
// that differ and must not (all are named, with both values), CheckpointError for a value that is missing or does not
// fit, DataError for data other than the checkpoint's.
struct Restored {
  RunState state;
  std::vector<std::string> notices;  // keys that changed, a jump of the learning rate
};
Restored restore(Trainer& trainer, const CheckpointContent& content);

// Upper bound on the size of a checkpoint file of this trainer.
int64_t snapshot_file_bytes(const Trainer& trainer);

// The fingerprint of the data in a checkpoint of `heed import`, which was trained on none that heed knows.
inline constexpr const char* kImportedData = "imported";

// A model without a trainer, for generation and evaluation.
struct LoadedModel {
  Config config;
  std::unique_ptr<nn::Gpt> model;
  std::shared_ptr<const data::Tokenizer> tokenizer;  // nullptr if the dataset has none
  int64_t step = 0;
};

// The model runs on a CUDA device if one can be used, else on the CPU, whatever device it was trained on. It stays on
// the CPU if the config says train.device = "cpu" or the precision is f64; an override of train.device decides as in
// training. Throws ConfigError for an override other than those of train/run/checkpoint_match.hpp, CheckpointError for
// a tensor that is missing, does not fit or belongs to no parameter, and for averaged weights that the checkpoint
// lacks, DeviceError if train.device = "cuda" is set and no CUDA device can be used.
LoadedModel load_model(const CheckpointContent& content, const std::vector<std::string>& overrides = {},
                       EvaluatedWeights weights = EvaluatedWeights::last);

}  // namespace heed::train
