// Console output of a run. On a terminal a progress line below the log redraws itself; elsewhere only plain lines are
// printed.
//
// No function here throws because of stdout. A full disk or a closed pipe would otherwise abort the run. Instead the
// error is stored, nothing more is printed, and the run ends after it has saved a checkpoint (see failure()).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/config/config.hpp"
#include "train/output/progress.hpp"
#include "train/run/summary.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {

// Estimates the remaining time of a run: its steps, the evaluations between them and those at its end.
class RemainingTime {
 public:
  // The number of sequences of each split; 0 if the split does not exist.
  RemainingTime(const Config& config, int64_t val_sequences, int64_t test_sequences);

  void add_step(double seconds);
  void add_evaluation(int64_t sequences, double seconds);

  // Seconds from the end of `step` to the end of the run; 0 before a step has been measured. Until an evaluation has
  // been measured, a sequence is assumed to need a third of its time in a training step: forward without backward.
  double seconds(int64_t step) const;

  int64_t last_step() const { return last_step_; }  // train.steps or train.stop_after
  // Sequences still to be evaluated after `step`, including those at the end of the run; twice with optim.ema_decay.
  int64_t sequences_left(int64_t step) const;

 private:
  int64_t periodic_evaluations_until(int64_t step) const;
  int64_t subset(int64_t sequences) const;  // how many of them are in train.eval_batches batches

  TrainConfig train_;
  int64_t evaluations_;  // of each sequence: with the weights, and with their average
  int64_t last_step_, periodic_sequences_;
  int64_t final_val_sequences_ = 0, test_sequences_ = 0;  // of the evaluations at the end (train.final_eval)
  int64_t steps_ = 0, evaluated_sequences_ = 0;
  double step_seconds_ = 0, evaluation_seconds_ = 0;
};

// The lines that open the log of a run.
//
// Model, batch, ranks, and notices about the device. Uses the config alone, so it can be printed before memory is
// allocated. The vocabulary size is left out if it is not known yet (0).
std::string config_header(const Config& config, Device device);
// Parameters, gradient buckets, entropies of the dataset: needs the model and the data.
std::string trainer_header(const Trainer& trainer);

class Reporter {
 public:
  explicit Reporter(const Trainer& trainer);

  // Prints the header of the log, before the first step: model, batch, data, run folder and memory estimate.
  void start(const std::string& run_dir);
  // Warns if the loss of a freshly initialized model is outside the range for its shape (train/trainer/first_loss.hpp).
  void check_first_loss(double loss);
  // Reports a step, which took `seconds`.
  void show_step(const StepResult& result, double tokens_per_s, double seconds);
  // The progress callback for Trainer::evaluate() with the same split and max_batches: draws a progress bar, measures
  // the time, and stops the evaluation as soon as must_stop() is true.
  EvaluationProgress evaluating(data::Split split, int64_t max_batches, EvaluatedWeights weights,
                                std::function<bool()> must_stop);
  // is_final: the final loss of the run, not a periodic evaluation.
  void evaluation(int64_t step, const Evaluation& evaluation, bool is_final = false);
  // training_seconds: time in training steps only, from which summary.tokens_per_s is computed; summary.seconds is the
  // total time.
  void end(const Summary& summary, double training_seconds, const std::string& run_dir);
  // Prints one line, above the progress line.
  void line(const std::string& text);
  // Why printing failed; empty if everything was printed.
  const std::string& failure() const { return failure_; }

 private:
  void show(const std::string& text);
  void draw(const StepResult& result, double tokens_per_s);
  void log(const StepResult& result, double tokens_per_s);
  std::string eta() const;
  void note_passed_entropies(int64_t step, double loss);

  const Trainer& trainer_;
  std::vector<data::ContextEntropy> entropies_;
  size_t passed_ = 0;  // number of entropies that the validation loss has fallen below
  RemainingTime remaining_;
  std::string failure_;
  std::string last_val_, last_excess_, last_ema_;  // of the last evaluation, for the progress line
  ProgressLine progress_;                          // last member: its destructor writes
};

// The progress line of an evaluation that has taken `seconds` so far: "evaluating val  12/1016 batches  ETA 0:42".
ProgressFields evaluation_fields(const std::string& split, int64_t done, int64_t total, double seconds);
// A callback that draws it on `line` and never stops the evaluation. Keeps a reference to `line`.
EvaluationProgress evaluation_bar(ProgressLine& line, const std::string& split);

}  // namespace heed::train
