// What a run prints: one line that redraws itself on a terminal, plain lines elsewhere.
//
// Nothing here throws because of stdout. A full disk or a closed pipe would else end the run where it stands; instead
// it is remembered, nothing more is printed, and the run ends after it has saved (see failure()).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "train/summary.hpp"
#include "train/trainer.hpp"

namespace heed::train {

class Reporter {
 public:
  explicit Reporter(const Trainer& trainer);

  // What is trained on what, before the first update.
  void start(const std::string& run_dir);
  // The first loss should be near ln V; elsewhere something is usually wrong, and this says what.
  void check_first_loss(double loss) const;
  void update(const Update& update, double tokens_per_s);
  void evaluation(int64_t step, const Evaluation& evaluation);
  void end(const Summary& summary, const std::string& run_dir);
  // A line of its own, also while the progress line stands.
  void line(const std::string& text);
  // Why something could not be printed; empty if all was.
  const std::string& failure() const { return failure_; }

 private:
  void show(const std::string& text);
  void note_passed_entropies(int64_t step, double loss);
  std::string eta() const;

  const Trainer& trainer_;
  std::vector<data::ContextEntropy> entropies_;
  size_t passed_ = 0;       // entropies that the validation loss has passed
  int64_t first_step_ = 0;  // updates done before this process
  bool terminal_;
  bool line_open_ = false;
  std::string failure_;
  std::string last_evaluation_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace heed::train
