// Estimates the remaining time of a run: its steps, the evaluations between them and those at its end.
#pragma once

#include <cstdint>

#include "train/config/config.hpp"

namespace heed::train {

class RemainingTime {
 public:
  // The number of sequences of each split; 0 if the split does not exist.
  RemainingTime(const Config& config, int64_t val_windows, int64_t test_windows);

  void add_step(double seconds);
  void add_evaluation(int64_t windows, double seconds);

  // Seconds from the end of `step` to the end of the run; 0 before a step has been measured. Until an evaluation has
  // been measured, a sequence is assumed to need a third of its time in a training step: forward without backward.
  double seconds(int64_t step) const;

  int64_t last_step() const { return last_step_; }  // train.steps or train.stop_after
  // Sequences still to be evaluated after `step`, including those at the end of the run.
  int64_t windows_left(int64_t step) const;

 private:
  int64_t periodic_evaluations_until(int64_t step) const;
  int64_t subset(int64_t windows) const;  // how many of them are in train.eval_batches batches

  TrainConfig train_;
  int64_t last_step_, periodic_windows_;
  int64_t final_val_windows_ = 0, test_windows_ = 0;  // of the evaluations at the end (train.final_eval)
  int64_t steps_ = 0, evaluated_windows_ = 0;
  double step_seconds_ = 0, evaluation_seconds_ = 0;
};

}  // namespace heed::train
