// Training from a config, one step at a time.
//
// A training step draws the rows of the global batch, runs forward and backward for each micro-batch, and then the
// optimizer once. The loss is the mean over all targets of the step, so micro-batches change rounding only. So do
// ranks, each of which processes its rows of the batch: all randomness depends on the row index in the global batch.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "data/batch_loader.hpp"
#include "nn/gpt.hpp"
#include "optim/optimizer.hpp"
#include "train/comm/grad_bucket.hpp"
#include "train/comm/init.hpp"
#include "train/config/config.hpp"
#include "train/trainer/evaluator.hpp"
#include "train/trainer/factory.hpp"
#include "train/trainer/pretrained.hpp"
#include "train/trainer/training_step.hpp"

namespace heed::train {

struct StepResult {
  int64_t step = 0;     // steps done, this one included
  int64_t targets = 0;  // targets of this step
  double loss = 0;      // before the optimizer step
  double learning_rate = 0, grad_norm = 0;
  bool must_stop = false;  // some rank requested a stop
};

using MakeCommunicator = std::function<std::unique_ptr<comm::Communicator>(comm::ProcessGroup&, Device)>;

class Trainer {
 public:
  // Builds dataset, model and optimizer. Throws ConfigError, DataError, MemoryError.
  explicit Trainer(const Config& config);
  // The same on several ranks. Collective, as are evaluate(), require_same_weights() and all functions below that are
  // not const. Throws CollectiveError on all ranks if one of them fails, or if configs, data, devices, weights or
  // programs differ.
  // pretrained: the model to start from, nullptr without train.init_from.
  Trainer(const Config& config, comm::ProcessGroup& ranks, const MakeCommunicator& make = comm::make_communicator,
          const Pretrained* pretrained = nullptr);

  // Runs one training step. stop: this rank requests a stop after it. If the loss or the gradient norm is not finite,
  // no parameter changes: the step runs again in anomaly mode, and DivergedError names the step and the operation that
  // produced the first NaN or Inf.
  StepResult train_step(bool stop = false);
  // max_batches = 0: the whole split.
  Evaluation evaluate(data::Split split, int64_t max_batches) const;
  // Returns nullopt on all ranks if the callback of any rank stopped it (train/trainer/evaluator.hpp).
  // The averaged weights need optim.ema_decay > 0; afterwards the state of the training is the same, bit for bit.
  std::optional<Evaluation> evaluate(data::Split split, int64_t max_batches, const EvaluationProgress& progress,
                                     EvaluatedWeights weights = EvaluatedWeights::last) const;
  // Number of sequences that evaluate() covers.
  int64_t eval_sequences(data::Split split, int64_t max_batches) const;
  // Called after an evaluation whose loss is not finite: runs it again in anomaly mode and throws DivergedError, which
  // names the step and the operation.
  [[noreturn]] void report_diverged_evaluation(data::Split split, int64_t max_batches, double loss,
                                               EvaluatedWeights weights = EvaluatedWeights::last);
  // Drops the captured CUDA graph and frees its memory; it is captured again two steps later. Returns false if none was
  // captured.
  bool reset_graph() const;
  bool has_sequences(data::Split split) const { return loader_->num_eval_sequences(split) > 0; }

  int64_t step() const { return step_; }
  // Continues after `step` steps, of which the optimizer counts `optimizer_steps`. Weights and moments are restored
  // separately.
  void resume_at(int64_t step, int64_t optimizer_steps);
  const Config& config() const { return config_; }
  const nn::Gpt& model() const { return *model_; }
  Device device() const { return model_->parameters().device(); }
  const data::Dataset& dataset() const { return *dataset_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }
  comm::GradBuckets& buckets() const { return *buckets_; }
  comm::ProcessGroup& ranks() const { return ranks_; }
  comm::Communicator& communicator() const { return *communicator_; }
  // Throws CollectiveError unless all ranks have bitwise equal weights.
  void require_same_weights() const;

 private:
  // This rank's micro-batches of step number `step` + 1, or the error that kept it from drawing them.
  struct Drawn {
    int64_t step = 0;
    std::vector<data::Batch> batches;
    std::exception_ptr error;
  };
  Drawn draw_batches(int64_t step) const;
  Trainer(const Config& config, std::unique_ptr<comm::ProcessGroup> single);
  // An rvalue reference, so that a caller may also pass *own_ranks: the order in which arguments are evaluated is
  // unspecified.
  Trainer(const Config& config, std::unique_ptr<comm::ProcessGroup>&& own_ranks, comm::ProcessGroup& ranks,
          const MakeCommunicator& make, const Pretrained* pretrained);
  void build(const Pretrained* pretrained);
  void build_step();
  // Runs step number step_ + 1, and on CUDA draws the next batches meanwhile.
  optim::StepState run_step(const Drawn& drawn, double learning_rate, bool stop);
  // Throws DataError, with several ranks CollectiveError on all of them, if one has no batch or none has a target.
  void require_batch(const optim::StepState& done, const std::exception_ptr& error) const;
  std::optional<Evaluation> evaluate_once(data::Split split, int64_t max_batches,
                                          const EvaluationProgress& progress) const;
  // Calls `work` while the model has these weights. Collective for the average, also if `work` throws on one rank.
  void with_weights(EvaluatedWeights weights, const std::function<void()>& work) const;
  [[noreturn]] void report_divergence(double loss, double grad_norm);
  // what: the message with the values that are not finite; run_again: reproduces them.
  [[noreturn]] void trace_divergence(const std::string& what, const std::function<void()>& run_again);

  std::unique_ptr<comm::ProcessGroup> own_ranks_;  // process group of size one, if none was passed
  comm::ProcessGroup& ranks_;
  Config config_;
  std::unique_ptr<data::Dataset> dataset_;
  std::unique_ptr<data::BatchLoader> loader_;
  std::unique_ptr<nn::Gpt> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<comm::Communicator> communicator_;
  std::unique_ptr<comm::GradBuckets> buckets_;
  std::unique_ptr<TrainingStep> training_step_;
  std::optional<Drawn> next_;  // drawn while the device ran the last step
  int64_t step_ = 0;
};

}  // namespace heed::train
