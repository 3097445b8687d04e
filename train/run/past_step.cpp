#include "train/run/past_step.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <set>

#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/comm/init.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/run/metrics.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/snapshot.hpp"
#include "train/trainer/trainer.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

std::string name_of(const RunStep& at) { return fmt::format("{}@{}", at.run.string(), at.step); }

std::vector<MetricsRow> rows_of(const fs::path& run) {
  std::error_code ignored;
  require<ConfigError>(fs::exists(run / "metrics.csv", ignored),
                       "{} is not a run folder: it has no metrics.csv, whose rows tell the steps of a run",
                       data::quoted_path(run.string()));
  return read_metrics(run / "metrics.csv");
}

// The content of a checkpoint of a run; nullopt if it is missing or damaged, since an earlier one serves, too.
std::optional<CheckpointContent> try_load(const fs::path& file) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return {};
  try {
    CheckpointContent content = load_checkpoint(file);
    content.integer(kStepName);
    return content;
  } catch (const CheckpointError&) {
    return {};
  }
}

// The checkpoints around a step: the last one at or before it, and the config of the first one at or after it, with
// which the run has done the step.
struct Around {
  std::optional<CheckpointContent> before;
  std::optional<int64_t> after;
  std::string config;  // of the one after; empty: there is none
};

// The row of a step; nullptr if there is none.
const MetricsRow* row_of(const std::vector<MetricsRow>& rows, int64_t step) {
  const auto found = std::lower_bound(rows.begin(), rows.end(), step,
                                      [](const MetricsRow& row, int64_t other) { return row.step < other; });
  return found != rows.end() && found->step == step ? &*found : nullptr;
}

// Whether the checkpoint belongs to the run that metrics.csv describes. After a run was resumed, later checkpoints of
// what it had done before may still be there.
bool is_of_run(const CheckpointContent& content, const std::vector<MetricsRow>& rows) {
  const int64_t step = content.integer(kStepName);
  if (step == 0) return true;
  const MetricsRow* row = row_of(rows, step);
  const auto loss = content.reals.find("train_loss");
  return row != nullptr && content.integer("tokens") == row->tokens && loss != content.reals.end() &&
         fmt::format("{:.9g}", loss->second) == fmt::format("{:.9g}", row->train_loss);
}

Around checkpoints_around(const fs::path& run, int64_t step, const std::vector<MetricsRow>& rows) {
  const CheckpointFolder folder(run, 0);
  std::vector<fs::path> files = folder.earlier();
  // The nearest first: those that are farther away need not be read.
  const auto distance = [step](const fs::path& file) { return std::abs(*checkpoint_step(file) - step); };
  std::stable_sort(files.begin(), files.end(), [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  files.insert(files.begin(), {folder.last(), folder.best()});
  Around found;
  const auto is_nearer = [&](int64_t other) {
    const bool is_before = other <= step && (!found.before || found.before->integer(kStepName) < other);
    return is_before || (other >= step && (!found.after || other < *found.after));
  };
  for (const fs::path& file : files) {
    const std::optional<int64_t> named = checkpoint_step(file);
    if (named && !is_nearer(*named)) continue;
    std::optional<CheckpointContent> content = try_load(file);
    if (!content || !is_of_run(*content, rows)) continue;
    const int64_t other = content->integer(kStepName);
    if (!is_nearer(other)) continue;
    if (other >= step) {
      found.after = other;
      found.config = content->text("config");
    }
    if (other <= step) found.before = std::move(content);
  }
  return found;
}

// A row as metrics.csv shows it, without its times.
std::string row_text(const MetricsRow& row) {
  return fmt::format("loss {:.9g}, gradient norm {:.9g}, learning rate {:.9g}, {} tokens", row.train_loss,
                     row.grad_norm, row.learning_rate, row.tokens);
}

void require_same_row(const RunStep& at, const std::vector<MetricsRow>& rows, const MetricsRow& repeated) {
  const MetricsRow* found = row_of(rows, repeated.step);
  require<CheckpointError>(found != nullptr, "{} cannot be checked: metrics.csv has no row of step {}", name_of(at),
                           repeated.step);
  const std::string expected = row_text(*found), actual = row_text(repeated);
  require<CheckpointError>(
      actual == expected,
      "{} cannot be rebuilt exactly: step {} now gives {}; in metrics.csv: {}. Was the run trained on another machine "
      "or device, with other threads or ranks, or by another version of heed? Or were its config or train.init_from "
      "changed? Rebuild it where it was trained, or take a checkpoint",
      name_of(at), repeated.step, actual, expected);
}

// Trains up to step `until`, from where the trainer is; for messages about `at`.
RunState repeat_steps(Trainer& trainer, RunState state, int64_t until, const RunStep& at,
                      const std::vector<MetricsRow>& rows) {
  ProgressLine line(STDERR_FILENO, write_progress);
  const int64_t first = trainer.step(), total = until - first;
  const auto begin = Clock::now();
  while (trainer.step() < until) {
    const StepResult done = trainer.train_step();
    state.tokens += done.targets;
    state.train_loss = done.loss;
    state.evaluation_pending = false;
    require_same_row(at, rows,
                     {.step = done.step,
                      .tokens = state.tokens,
                      .train_loss = done.loss,
                      .learning_rate = done.learning_rate,
                      .grad_norm = done.grad_norm});
    if (!line.is_due()) continue;
    const auto repeated = static_cast<double>(done.step - first);
    const double left = static_cast<double>(until - done.step) * seconds_since(begin) / repeated;
    line.draw({.fraction = repeated / static_cast<double>(total),
               .counter = fmt::format("repeating steps {}/{}", done.step - first, total),
               .details = {},
               .eta = "ETA " + duration_text(left)});
  }
  state.seconds += seconds_since(begin);
  return state;
}

// The run folder of RUN/checkpoints/FILE.
fs::path run_of(const fs::path& file) {
  std::error_code ignored;
  return fs::absolute(file, ignored).parent_path().parent_path();
}

}  // namespace

std::optional<RunStep> parse_run_step(const std::string& argument) {
  const size_t at = argument.rfind('@');
  std::error_code ignored;
  if (at == std::string::npos || at == 0 || fs::exists(argument, ignored)) return {};
  int64_t step = 0;
  const char* const end = argument.data() + argument.size();
  const auto [stop, error] = std::from_chars(argument.data() + at + 1, end, step);
  if (error != std::errc() || stop != end || step < 0) return {};
  return RunStep{argument.substr(0, at), step};
}

NamedCheckpoint rebuild(const RunStep& at, const ReadPretrained& read) {
  const std::vector<MetricsRow> rows = rows_of(at.run);
  const int64_t last = rows.empty() ? 0 : rows.back().step;
  require<ConfigError>(at.step <= last, "{}: the run has done {}; STEP must be 0 to {}", name_of(at),
                       plural(last, "step"), last);
  Around around = checkpoints_around(at.run, at.step, rows);
  NamedCheckpoint result{.content = {}, .name = name_of(at), .run = at.run};
  if (around.before) result.first_file = around.before->file;
  if (around.before && around.before->integer(kStepName) == at.step) {
    result.content = std::move(*around.before);
    return result;
  }
  const std::string file = (at.run / "config.toml").string();
  const Config config = around.config.empty() ? load_config(file) : parse_config(around.config, result.name);
  const std::unique_ptr<comm::ProcessGroup> ranks = comm::single_rank();
  const auto pretrained = read_on_all_ranks(config, around.before.has_value(), read, *ranks);
  Trainer trainer(config, *ranks, comm::make_communicator, pretrained.get());
  const RunState state = around.before ? restore(trainer, *around.before).state : RunState{};
  around.before.reset();
  result.repeated_steps = at.step - trainer.step();
  const RunState repeated = repeat_steps(trainer, state, at.step, at, rows);
  result.seconds = repeated.seconds - state.seconds;
  result.content = snapshot(trainer, repeated);
  result.content.file = result.name;
  if (row_of(rows, at.step + 1) == nullptr) return result;
  // The loss of the next step is the first that the weights of this one decide. The snapshot may share its memory.
  for (auto& [name, tensor] : result.content.tensors) tensor = tensor.clone();
  repeat_steps(trainer, repeated, at.step + 1, at, rows);
  return result;
}

NamedCheckpoint load_named_checkpoint(const std::string& argument, const ReadPretrained& read) {
  if (const std::optional<RunStep> at = parse_run_step(argument)) return rebuild(*at, read);
  const std::string file = checkpoint_of(argument);
  return {.content = load_checkpoint(file), .name = file, .run = run_of(file)};
}

RebuildCost rebuild_cost(const fs::path& run) {
  const std::vector<MetricsRow> rows = rows_of(run);
  RebuildCost cost;
  if (!rows.empty()) cost.last_step = rows.back().step;
  const CheckpointFolder folder(run, 0);
  std::set<int64_t> steps;
  for (const fs::path& file : folder.earlier()) steps.insert(*checkpoint_step(file));
  for (const fs::path& file : {folder.last(), folder.best()}) {
    if (const auto content = try_load(file)) steps.insert(content->integer(kStepName));
  }
  cost.steps.assign(steps.begin(), steps.end());
  int64_t previous = 0;
  steps.insert(cost.last_step + 1);
  for (const int64_t step : steps) {
    cost.most_steps = std::max(cost.most_steps, step - previous - 1);
    previous = step;
  }
  if (cost.last_step > 0 && rows.back().tokens_per_s > 0) {
    cost.seconds_per_step =
        static_cast<double>(rows.back().tokens) / rows.back().tokens_per_s / static_cast<double>(cost.last_step);
  }
  return cost;
}

}  // namespace heed::train
