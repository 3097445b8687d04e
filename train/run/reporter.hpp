// What a run prints. On a terminal a progress line stands below the log and redraws itself; elsewhere there are plain
// lines only.
//
// Nothing here throws because of stdout. A full disk or a closed pipe would else end the run where it stands; instead
// it is remembered, nothing more is printed, and the run ends after it has saved (see failure()).
#pragma once

#include <string>
#include <vector>

#include "train/output/terminal.hpp"
#include "train/run/remaining_time.hpp"
#include "train/run/summary.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {

class Reporter {
 public:
  explicit Reporter(const Trainer& trainer);

  // What is trained on what, before the first step.
  void start(const std::string& run_dir);
  // Warns where the loss of a fresh model is not what its shape allows (train/trainer/first_loss.hpp).
  void check_first_loss(double loss);
  // A step that took `seconds`.
  void update(const Update& update, double tokens_per_s, double seconds);
  // For Trainer::evaluate() with the same split and max_batches: shows a bar, measures the time, and stops the
  // evaluation as soon as must_stop() is true.
  EvaluationProgress evaluating(data::Split split, int64_t max_batches, std::function<bool()> must_stop);
  // is_final: the loss that the run ends with, not one on the way.
  void evaluation(int64_t step, const Evaluation& evaluation, bool is_final = false);
  // training_seconds: in steps alone, what summary.tokens_per_s is measured by; summary.seconds is the whole time.
  void end(const Summary& summary, double training_seconds, const std::string& run_dir);
  // A line of its own, above the progress line.
  void line(const std::string& text);
  // Why something could not be printed; empty if all was.
  const std::string& failure() const { return failure_; }

 private:
  void show(const std::string& text);
  void draw(const Update& update, double tokens_per_s);
  void log(const Update& update, double tokens_per_s);
  std::string eta() const;
  void note_passed_entropies(int64_t step, double loss);

  const Trainer& trainer_;
  std::vector<data::ContextEntropy> entropies_;
  size_t passed_ = 0;  // entropies that the validation loss has passed
  RemainingTime remaining_;
  std::string failure_;
  std::string last_val_, last_excess_;  // of the last evaluation, for the progress line
  ProgressLine progress_;               // the last member: its end writes
};

// A progress line for one evaluation that took `seconds` so far: "evaluating val  12/1016 batches  ETA 0:42".
ProgressFields evaluation_fields(const std::string& split, int64_t done, int64_t total, double seconds);
// Shows it on `line`, and never stops the evaluation. Keeps a reference.
EvaluationProgress evaluation_bar(ProgressLine& line, const std::string& split);

}  // namespace heed::train
