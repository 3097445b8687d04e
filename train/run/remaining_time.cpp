#include "train/run/remaining_time.hpp"

#include <algorithm>

namespace heed::train {

RemainingTime::RemainingTime(const Config& config, int64_t val_windows, int64_t test_windows)
    : train_(config.train),
      last_step_(train_.stop_after == 0 ? train_.steps : train_.stop_after),
      periodic_windows_(subset(val_windows)) {
  if (train_.final_eval == FinalEval::none) return;
  const bool is_full = train_.final_eval == FinalEval::full;
  final_val_windows_ = is_full ? val_windows : periodic_windows_;
  test_windows_ = is_full ? test_windows : subset(test_windows);
}

int64_t RemainingTime::subset(int64_t windows) const {
  return train_.eval_batches == 0 ? windows : std::min(windows, train_.eval_batches * train_.batch_size);
}

void RemainingTime::add_step(double seconds) {
  ++steps_;
  step_seconds_ += seconds;
}

void RemainingTime::add_evaluation(int64_t windows, double seconds) {
  evaluated_windows_ += windows;
  evaluation_seconds_ += seconds;
}

// One evaluation after each train.eval_interval steps, and one after the last step of the schedule.
int64_t RemainingTime::periodic_evaluations_until(int64_t step) const {
  const bool is_extra = step == train_.steps && step % train_.eval_interval != 0;
  return step / train_.eval_interval + (is_extra ? 1 : 0);
}

int64_t RemainingTime::windows_left(int64_t step) const {
  const int64_t periodic = periodic_evaluations_until(last_step_) - periodic_evaluations_until(step);
  // The last periodic evaluation is also the final one if it covers as many sequences.
  const bool last_is_final =
      periodic_windows_ == final_val_windows_ && (last_step_ == train_.steps || last_step_ % train_.eval_interval == 0);
  return periodic * periodic_windows_ + (last_is_final ? 0 : final_val_windows_) + test_windows_;
}

double RemainingTime::seconds(int64_t step) const {
  if (steps_ == 0) return 0;
  const double per_step = step_seconds_ / static_cast<double>(steps_);
  const double per_window = evaluated_windows_ > 0 ? evaluation_seconds_ / static_cast<double>(evaluated_windows_)
                                                   : per_step / static_cast<double>(train_.batch_size) / 3;
  return per_step * static_cast<double>(last_step_ - step) + per_window * static_cast<double>(windows_left(step));
}

}  // namespace heed::train
