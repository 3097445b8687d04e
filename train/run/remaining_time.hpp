// How long a run will still take: its steps, the evaluations between them and those at its end.
#pragma once

#include <cstdint>

#include "train/config/config.hpp"

namespace heed::train {

class RemainingTime {
 public:
  // The windows of each split; 0 where it has none.
  RemainingTime(const Config& config, int64_t val_windows, int64_t test_windows);

  void add_step(double seconds);
  void add_evaluation(int64_t windows, double seconds);

  // Seconds from after `step` to the end of the run; 0 before a step was measured. Until an evaluation was measured, a
  // window is assumed to take a third of its time in a step: forward without backward.
  double seconds(int64_t step) const;

  int64_t last_step() const { return last_step_; }  // train.steps or train.stop_after
  // Windows that are still to be evaluated after `step`, at the end of the run too.
  int64_t windows_left(int64_t step) const;

 private:
  int64_t periodic_evaluations_until(int64_t step) const;
  int64_t subset(int64_t windows) const;  // of them, those in train.eval_batches batches

  TrainConfig train_;
  int64_t last_step_, periodic_windows_;
  int64_t final_val_windows_ = 0, test_windows_ = 0;  // of the evaluations at the end (train.final_eval)
  int64_t steps_ = 0, evaluated_windows_ = 0;
  double step_seconds_ = 0, evaluation_seconds_ = 0;
};

}  // namespace heed::train
