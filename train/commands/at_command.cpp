#include <memory>

#include "data/io/checksum.hpp"
#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/commands/command_options.hpp"
#include "train/commands/command_runner.hpp"
#include "train/commands/commands.hpp"
#include "train/huggingface/read_pretrained.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/run/past_step.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

void print_cost(const std::string& run) {
  const RebuildCost cost = rebuild_cost(run);
  std::string steps;
  for (const int64_t step : cost.steps) steps += fmt::format("{}{}", steps.empty() ? "" : ", ", step);
  print("{}", wrap_words(fmt::format("checkpoints after the steps {}", steps.empty() ? "none" : steps), 80, 12));
  print("rebuild     any of the {}: {} at most, about {:.3g} s\n", plural(cost.last_step, "step"),
        plural(cost.most_steps, "repeated step"), static_cast<double>(cost.most_steps) * cost.seconds_per_step);
}

// A checksum over the names and values of the parameters, in the order of their names.
uint64_t checksum_of_weights(const CheckpointContent& content) {
  data::Checksum sum;
  for (const auto& [name, tensor] : content.tensors) {
    if (!name.starts_with("parameters/")) continue;
    sum.update(name.data(), static_cast<int64_t>(name.size()));
    sum.update(tensor.ref().data, tensor.numel() * size_bytes(tensor.dtype()));
  }
  return sum.value();
}

RunLock lock(const RunStep& at) {
  require<ConfigError>(read_mark(at.run).has_value(),
                       "at: {} is not a run folder of heed: it has no .heed folder, and nothing is saved in it",
                       data::quoted_path(at.run.string()));
  try {
    return RunLock(at.run);
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("at: {}; eval, inspect, generate and export read {}@{} and save nothing",
                                  error.what(), at.run.string(), at.step));
  }
}

void print_origin(const NamedCheckpoint& rebuilt) {
  const std::string origin =
      rebuilt.first_file.empty() ? "the initial weights" : fs::path(rebuilt.first_file).filename().string();
  print("origin      {}", origin);
  if (rebuilt.repeated_steps > 0) {
    print(" and {} in {:.3g} s, each as in metrics.csv", plural(rebuilt.repeated_steps, "repeated step"),
          rebuilt.seconds);
  }
  print("\n");
}

}  // namespace

void run_at(const AtOptions& options) {
  if (!options.step) return print_cost(options.run);
  const RunStep at{options.run, *options.step};
  const RunLock held = lock(at);
  const NamedCheckpoint rebuilt = rebuild(at, read_pretrained);
  print_origin(rebuilt);
  if (rebuilt.content.reals.contains("train_loss")) {
    print("train loss  {}\n", loss_text(rebuilt.content.real("train_loss")));
  }
  print("weights     {:016x} (XXH64 of their names and values)\n", checksum_of_weights(rebuilt.content));
  std::string file = rebuilt.first_file;
  if (rebuilt.repeated_steps > 0 || file.empty()) {
    file = CheckpointFolder(at.run, 0).save_earlier(rebuilt.content).string();
  }
  print("file        {}\n", data::quoted_path(file));
  if (!options.export_folder.empty()) run_export({.checkpoint = file, .folder = options.export_folder});
}

void add_at(CLI::App& app, const Runner& run) {
  CLI::App* command = app.add_subcommand("at", "Rebuild the weights of a run after any of its steps.");
  const auto options = std::make_shared<AtOptions>();
  AtOptions& o = *options;
  add_path(command, "run", o.run, "The run folder.")->required();
  add_value(
      command, "step",
      [&o](const std::string& text) {
        o.step = integer_option("step", text, {0, 1'000'000'000});
      },
      "STEP", "The step; without one, the cost of a rebuild is shown.");
  add_path(command, "--export", o.export_folder, "Also write these weights to this new folder, as heed export does.");
  run.alone(command, "at", [options] {
    run_at(*options);
    return 0;
  });
}

}  // namespace heed::train
