// What a run records while it trains: metrics.csv, with train.log_layers layers.csv, with train.tensorboard an event
// file.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "train/run/layers_file.hpp"
#include "train/run/metrics.hpp"
#include "train/run/tensorboard_log.hpp"

namespace heed::train {

// Every function throws CheckpointError if writing fails.
class RunLog {
 public:
  // Creates the files in the run folder. For a run that resumes after `resumed_step` steps, they keep what was recorded
  // up to that step.
  RunLog(const std::filesystem::path& folder, const Config& config, std::optional<int64_t> resumed_step);

  // The last step with a row in metrics.csv.
  int64_t last_step() const { return metrics_.last_step(); }
  // Whether this step's layers are to be recorded.
  bool wants_layers(int64_t step) const { return layers_ && step % log_interval_ == 0; }

  void write(const MetricsRow& row, const std::optional<Evaluation>& evaluation);
  void write(int64_t step, const std::vector<ParameterNorms>& layers);
  // An evaluation of the last row's step that followed later.
  void set_evaluation(int64_t step, const Evaluation& evaluation);
  // The validation loss at the end of the run, of the last row's step.
  void set_final(int64_t step, const Evaluation& evaluation);
  // png: the bytes of a PNG for TensorBoard, or empty.
  void write_picture(int64_t step, std::string_view png) { tensorboard_.write_picture(step, png); }
  void end(RunStatus status) { tensorboard_.end(status); }
  void flush();
  // Returns when all is durable (fsync): a checkpoint must not be ahead of metrics.csv.
  void sync();

 private:
  int64_t log_interval_;
  std::optional<LayersFile> layers_;
  MetricsFile metrics_;
  TensorBoardLog tensorboard_;
};

}  // namespace heed::train
