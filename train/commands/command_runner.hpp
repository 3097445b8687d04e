// How a command of the command line is added and run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "train/commands/run_command.hpp"
#include "train/trainer/evaluator.hpp"

namespace heed::train {

inline constexpr const char* kCheckpointHelp =
    "A checkpoint (.h5), a run folder, whose checkpoints/last.h5 is used, or RUN@STEP: the run after that step, "
    "rebuilt (heed at).";

// Registers what runs a command, once the whole command line has been parsed.
struct Runner {
  int& code;

  // Runs in one process; an error if a launcher has started several.
  void alone(CLI::App* command, const std::string& name, const std::function<int()>& action) const {
    command->callback([this, name, action] { code = run_alone(name, action); });
  }
  // Runs in each process that a launcher has started, which may join the others as a rank.
  void in_each(CLI::App* command, const std::function<int()>& action) const {
    command->callback([this, action] { code = guarded(action); });
  }
};

// The option --ema.
inline void add_ema(CLI::App* command, EvaluatedWeights& weights) {
  command->add_flag_callback(
      "--ema", [&weights] { weights = EvaluatedWeights::average; },
      "Use the exponential moving average (EMA) of the weights; needs a run with optim.ema_decay above 0.");
}

// Each adds its command to the app.
void add_at(CLI::App& app, const Runner& run);
void add_export(CLI::App& app, const Runner& run);
void add_import(CLI::App& app, const Runner& run);
void add_data(CLI::App& app, const Runner& run);

}  // namespace heed::train
