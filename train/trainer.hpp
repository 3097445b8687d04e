// Training by a config: one update at a time, or a whole run.
//
// An update draws the rows of the global batch, runs forward and backward for each micro-batch, and moves the
// parameters once. The loss is the mean over all targets of the update, so micro-batches change rounding only.
#pragma once

#include <functional>
#include <memory>

#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/config.hpp"
#include "train/device_update.hpp"
#include "train/evaluator.hpp"

namespace heed::train {

struct Update {
  int64_t step = 0;     // updates done, this one included
  int64_t targets = 0;  // of this update
  double loss = 0;      // before the move
  double learning_rate = 0, grad_norm = 0;
};

class Trainer {
 public:
  // Builds source, model and optimizer. Throws ConfigError, DataError, MemoryError.
  explicit Trainer(const Config& config);

  // One update. A loss or gradient norm that is not finite changes no parameter: the update is run again in anomaly
  // mode, and DivergedError names the step and the operation that made the first NaN or Inf.
  Update update();
  // max_batches = 0: the whole split.
  Evaluation evaluate(data::Split split, int64_t max_batches) const;
  bool has_windows(data::Split split) const { return loader_->num_eval_windows(split) > 0; }

  int64_t step() const { return step_; }
  // Goes on after `step` updates, of which the optimizer counts `optimizer_steps`; weights and moments are set apart.
  void resume_at(int64_t step, int64_t optimizer_steps);
  const Config& config() const { return config_; }
  const nn::Gpt& model() const { return *model_; }
  Device device() const { return model_->parameters().device(); }
  const data::Source& source() const { return *source_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }

 private:
  // The micro-batches of update step + 1.
  std::vector<data::Batch> draw_batches(int64_t step) const;
  void count_targets(const std::vector<data::Batch>& batches);
  double accumulate_gradients();
  Update update_here();
  Update update_on_cuda();
  [[noreturn]] void report_divergence(double loss, double grad_norm);

  Config config_;
  std::unique_ptr<data::Source> source_;
  std::unique_ptr<data::BatchLoader> loader_;
  std::unique_ptr<nn::Gpt> model_;
  std::vector<optim::ParameterSpan> spans_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<DeviceUpdate> device_update_;  // on CUDA
  std::vector<data::Batch> next_batches_;        // drawn while the device is at work
  int64_t step_ = 0;
  int64_t targets_ = 0;  // of the current update
};

std::unique_ptr<data::Source> make_source(const Config& config);
// The device that a config's train.device stands for on this machine. Throws DeviceError where it is cuda and there is
// none that can be used, ConfigError for f64 on cuda.
Device choose_device(const Config& config);
optim::ScheduleOptions schedule_options(const Config& config);

}  // namespace heed::train
