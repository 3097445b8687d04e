// The event file of a run (train.tensorboard), in "<run folder>/tensorboard/": what metrics.csv holds, for TensorBoard.
//
//   tags      train/loss, train/learning_rate, train/grad_norm, train/tokens_per_s; val/loss and val/excess after an
//             evaluation (val/excess if the exact distribution of the dataset is known, val/loss_ema with
//             optim.ema_decay); with train.log_layers weight_norm/<layer>, grad_norm/<layer> and update_norm/<layer>;
//             step: the number of steps done
//   hparams   the config keys that have an effect
// Each start of heed train writes a new file, on the root rank; one that resumes hides the steps that it repeats.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "train/config/config.hpp"
#include "train/output/tensorboard.hpp"
#include "train/run/metrics.hpp"
#include "train/run/summary.hpp"
#include "train/trainer/evaluator.hpp"
#include "train/trainer/parameter_norms.hpp"

namespace heed::train {

inline constexpr const char* kTensorBoardFolder = "tensorboard";

// Without train.tensorboard, no function does anything. They throw CheckpointError if writing fails.
class TensorBoardLog {
 public:
  // steps_done: 0, or those of the checkpoint from which the run is resumed.
  TensorBoardLog(const std::filesystem::path& run_folder, const Config& config, int64_t steps_done);

  void write(const MetricsRow& row, const std::optional<Evaluation>& evaluation);
  // An evaluation that followed this step but not its row.
  void write(int64_t step, const Evaluation& evaluation);
  void write(int64_t step, const std::vector<ParameterNorms>& layers);
  // The curves of the run as the bytes of a PNG, or empty for none; tag: curves.
  void write_picture(int64_t step, std::string_view png);
  // The end of a run that cannot be resumed from there: completed or diverged. Other ends are not written, since
  // TensorBoard keeps the first end of a run.
  void end(RunStatus status);
  void flush();
  void sync();

 private:
  std::optional<EventFile> file_;
};

}  // namespace heed::train
