// `heed inspect`: what a checkpoint's attention heads do, on sequences of the run's data, of a synthetic task, or on
// a given text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/trainer/evaluator.hpp"

namespace heed::train {

// data: validation sequences of the run. repeat: random tokens, repeated after a period that is random for each
// sequence; only copying predicts the repeated part, which is what induction heads do.
enum class InspectTask { data, repeat };

struct InspectOptions {
  std::string checkpoint = {};  // a .h5 file, or a run folder, of which last.h5 is used
  std::vector<std::string> overrides = {};
  EvaluatedWeights weights = EvaluatedWeights::last;
  std::string text = {};  // the one sequence to inspect; token ids separated by spaces without a tokenizer
  bool has_text = false;
  InspectTask task = InspectTask::data;
  int64_t num_sequences = 64;
  std::string output = {};  // the folder to write to; empty: "inspect" in the run folder of the checkpoint
};

// Prints the tables of inspection_text() and writes the files of InspectFolder. Throws what loading the checkpoint
// throws, ConfigError for the options, and DataError if the data is not that of the run.
void run_inspect(const InspectOptions& options);

}  // namespace heed::train
