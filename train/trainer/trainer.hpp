// Training by a config: one update at a time, or a whole run.
//
// An update draws the rows of the global batch, runs forward and backward for each micro-batch, and moves the
// parameters once. The loss is the mean over all targets of the update, so micro-batches change rounding only; and so
// do ranks, each of which takes its rows of the batch: everything random depends on the row in the global batch.
#pragma once

#include <functional>
#include <memory>

#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "optim/optimizer.hpp"
#include "optim/schedule.hpp"
#include "train/comm/grad_bucket.hpp"
#include "train/config/config.hpp"
#include "train/trainer/device_update.hpp"
#include "train/trainer/evaluator.hpp"

namespace heed::train {

struct Update {
  int64_t step = 0;     // updates done, this one included
  int64_t targets = 0;  // of this update
  double loss = 0;      // before the move
  double learning_rate = 0, grad_norm = 0;
  bool must_stop = false;  // some rank asked for it
};

using MakeCommunicator = std::function<std::unique_ptr<comm::Communicator>(comm::Ranks&, Device)>;

class Trainer {
 public:
  // Builds source, model and optimizer. Throws ConfigError, DataError, MemoryError.
  explicit Trainer(const Config& config);
  // The same on several ranks; collective, as is all that is not const below, and evaluate(). Throws SharedError on all
  // where one of them fails, or where configs, data, weights or programs differ.
  Trainer(const Config& config, comm::Ranks& ranks, const MakeCommunicator& make = comm::make_communicator);

  // One update. stop: this rank wishes to end after it. A loss or gradient norm that is not finite changes no
  // parameter: the update is run again in anomaly mode, and DivergedError names the step and the operation that made
  // the first NaN or Inf.
  Update update(bool stop = false);
  // max_batches = 0: the whole split.
  Evaluation evaluate(data::Split split, int64_t max_batches) const;
  // nullopt on all ranks where progress stopped it on any of them (train/trainer/evaluator.hpp).
  std::optional<Evaluation> evaluate(data::Split split, int64_t max_batches, const EvaluationProgress& progress) const;
  // Windows that evaluate() covers.
  int64_t eval_windows(data::Split split, int64_t max_batches) const;
  // After an evaluation that gave a loss which is not finite: runs it again in anomaly mode and throws DivergedError,
  // which names the step and the operation.
  [[noreturn]] void report_diverged_evaluation(data::Split split, int64_t max_batches, double loss);
  // Gives the memory of a recorded update back until the next but one; false where there is none.
  bool forget_recording() const;
  bool has_windows(data::Split split) const { return loader_->num_eval_windows(split) > 0; }

  int64_t step() const { return step_; }
  // Goes on after `step` updates, of which the optimizer counts `optimizer_steps`; weights and moments are set apart.
  void resume_at(int64_t step, int64_t optimizer_steps);
  const Config& config() const { return config_; }
  const nn::Gpt& model() const { return *model_; }
  Device device() const { return model_->parameters().device(); }
  const data::Source& source() const { return *source_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }
  comm::GradBuckets& buckets() const { return *buckets_; }
  comm::Ranks& ranks() const { return ranks_; }
  comm::Communicator& communicator() const { return *communicator_; }
  // Throws SharedError unless all ranks have the same weights, bit for bit.
  void require_same_weights() const;

 private:
  // The micro-batches of update step + 1.
  std::vector<data::Batch> draw_batches(int64_t step) const;
  Trainer(const Config& config, std::unique_ptr<comm::Ranks> single);
  // By reference: a caller may name *own_ranks beside it, in whatever order a compiler takes arguments.
  Trainer(const Config& config, std::unique_ptr<comm::Ranks>&& own_ranks, comm::Ranks& ranks,
          const MakeCommunicator& make);
  void build();
  void build_update();
  // Their sum over the ranks is the update's.
  double count_targets(const std::vector<data::Batch>& batches) const;
  void require_targets(double targets) const;
  // Of this rank; gives its part of the loss. do_backward: how the last one is run.
  using RunBackward = std::function<void(const std::function<void()>&)>;
  double accumulate_gradients(const std::vector<data::Batch>& batches, const RunBackward& run_last);
  Update update_here(bool stop);
  Update update_on_cuda(bool stop);
  void draw_next_batches();
  std::optional<Evaluation> evaluate_once(data::Split split, int64_t max_batches,
                                          const EvaluationProgress& progress) const;
  [[noreturn]] void report_divergence(double loss, double grad_norm);
  // what: the numbers; run_again: meets the NaN again.
  [[noreturn]] void trace_divergence(const std::string& what, const std::function<void()>& run_again);

  std::unique_ptr<comm::Ranks> own_ranks_;  // a world of one, where none was given
  comm::Ranks& ranks_;
  Config config_;
  std::unique_ptr<data::Source> source_;
  std::unique_ptr<data::BatchLoader> loader_;
  std::unique_ptr<nn::Gpt> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<comm::GradBuckets> buckets_;
  std::unique_ptr<DeviceUpdate> device_update_;  // on CUDA
  Tensor sums_;                                  // on the CPU: what an update adds up over the ranks beside gradients
  std::vector<data::Batch> next_batches_;        // drawn while the device is at work
  int64_t step_ = 0;
  double targets_ = 0;  // of the current update, over all ranks
};

// tokenizer: of a text that is read again, in place of one made from the text (data/text_source.hpp). progress: of
// reading a text, and of learning its vocabulary.
std::unique_ptr<data::Source> make_source(const Config& config,
                                          std::shared_ptr<const data::Tokenizer> tokenizer = nullptr,
                                          const data::Progress& progress = {});
// The device that a config's train.device stands for on this machine. Throws DeviceError where it is cuda and there is
// none that can be used, ConfigError for f64 on cuda.
Device choose_device(const Config& config);
optim::ScheduleOptions schedule_options(const Config& config);

}  // namespace heed::train
