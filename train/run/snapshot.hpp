// A run at an update boundary, as a checkpoint and back.
//
//   parameters/<name>                      weights, by name and shape: the layout in memory is not stored
//   optimizer/<moment>/<name>              what the optimizer remembers of each parameter
//   step, optimizer_steps, tokens, seconds, wall_seconds, train_loss
//   best_val_loss, best_val_targets, best_val_windows, evaluation_pending
//   config                                 the resolved config as TOML
//   tokenizer                              serialized, where the source has one
//   data                                   the source's fingerprint
// Random numbers and the place in the data are functions of the seeds, which are in the config, and of step.
#pragma once

#include <memory>
#include <optional>

#include "data/text/tokenizer.hpp"
#include "train/checkpoint/checkpoint_content.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {

// What a run carries from update to update besides the trainer.
struct RunState {
  int64_t tokens = 0;       // targets seen
  double seconds = 0;       // spent in updates
  double wall_seconds = 0;  // since the start, evaluations and files included
  std::optional<double> train_loss = {};
  std::optional<double> best_val_loss = {};
  // What best_val_loss is the mean of.
  int64_t best_val_targets = 0, best_val_windows = 0;
  bool evaluation_pending = false;  // due at this step, and stopped by a signal
};

// Collective; the root's is the checkpoint, that of other ranks has no tensors.
CheckpointContent snapshot(const Trainer& trainer, const RunState& state);

// Puts the trainer where the checkpoint was made, on each rank by itself. Throws ConfigError, one line, for keys that
// differ and may not (all are named, with both values), CheckpointError for a value that is missing or does not fit,
// DataError for data other than the checkpoint's.
struct Restored {
  RunState state;
  std::vector<std::string> notices;  // keys that changed, a learning rate that jumps
};
Restored restore(Trainer& trainer, const CheckpointContent& content);

// What a checkpoint of this trainer takes on the disk, at most.
int64_t snapshot_file_bytes(const Trainer& trainer);

// A model by itself, for generation and evaluation.
struct LoadedModel {
  Config config;
  std::unique_ptr<nn::Gpt> model;
  std::shared_ptr<const data::Tokenizer> tokenizer;  // nullptr where the source has none
  int64_t step = 0;
};

// The model runs on the device that is there, whatever it was trained on, unless train.device is among the overrides.
// Throws ConfigError for an override other than those of train/run/checkpoint_match.hpp, CheckpointError for a tensor
// that is missing, does not fit or belongs to no parameter, DeviceError where train.device = "cuda" is set and there is
// none.
LoadedModel load_model(const CheckpointContent& content, const std::vector<std::string>& overrides = {});

}  // namespace heed::train
