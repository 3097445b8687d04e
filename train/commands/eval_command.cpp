#include "train/commands/commands.hpp"

#include <unistd.h>

#include <cmath>
#include <numbers>

#include "data/io/posix_file.hpp"
#include "train/comm/init.hpp"
#include "train/commands/eval_data.hpp"
#include "train/commands/position_table.hpp"
#include "train/commands/prompt.hpp"
#include "train/config/config_value.hpp"
#include "train/huggingface/read_pretrained.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/run/past_step.hpp"
#include "train/run/reporter.hpp"
#include "train/run/snapshot.hpp"
#include "train/trainer/evaluator.hpp"

namespace heed::train {
namespace {

void print_evaluation(const std::string& label, const Evaluation& e, const std::string& targets) {
  require<DivergedError>(std::isfinite(e.loss),
                         "eval: the {} loss is {}: the checkpoint's weights give values that are not finite; take an "
                         "earlier checkpoint",
                         label, loss_text(e.loss));
  print("{:<11} loss {:.6f}  perplexity {:.6g}", label, e.loss, std::exp(e.loss));
  if (e.target_bytes > 0) {
    const double bits = e.loss * static_cast<double>(e.targets) / std::numbers::ln2;
    print("  bits per byte {:.4f}", bits / static_cast<double>(e.target_bytes));
  }
  if (e.excess) print("  excess {:.4f}", *e.excess);
  print("  ({} {})\n", e.targets, targets);
}

// Prints in which respects the evaluation differs from the config of the run.
void print_changes(const Config& saved, const Config& now, const EvalData& data) {
  if (is_set(now, "data.path") && data.is_of_run)
    print("data        {}: the data of the run\n", data::quoted_path(now.data.path));
  if (now.train.precision != saved.train.precision) {
    print("precision   {}; the run was trained in {}\n", name(now.train.precision), name(saved.train.precision));
  }
  if (data.is_of_run && data.seq_len != saved.model.seq_len) {
    print("context     {} tokens; the run was trained with {}\n", data.seq_len, saved.model.seq_len);
  }
}

bool has_text(const EvalOptions& options) { return options.text.has_value() || !options.text_file.empty(); }

void check(const EvalOptions& options, const LoadedModel& loaded) {
  const TrainConfig& train = loaded.config.train;
  require<ConfigError>(
      !is_set(loaded.config, "train.batch_size") || train.micro_batch_size == 0,
      "eval: train.batch_size has no effect when train.micro_batch_size is set (it is {}): remove it, or set "
      "train.micro_batch_size=0",
      train.micro_batch_size);
  require<ConfigError>(options.seq_len <= loaded.model->config().max_positions(),
                       "eval: --seq-len is {}, but the model has positions for {} tokens: it must be at most {}; only "
                       "a model with another model.position reads longer sequences",
                       options.seq_len, loaded.config.model.seq_len, loaded.config.model.seq_len);
  require<ConfigError>(!has_text(options) || !is_set(loaded.config, "data.path"),
                       "eval: data.path has no effect with {}: remove one of them",
                       options.text ? "--text" : "--text-file");
  if (!options.csv.empty()) PositionTable::require_replaceable(options.csv);  // an error without delay
}

EvalData choose_data(const EvalOptions& options, const LoadedModel& loaded, const CheckpointContent& content) {
  const int64_t seq_len = options.seq_len == 0 ? loaded.config.model.seq_len : options.seq_len;
  if (options.text) return make_eval_text(loaded, *options.text, seq_len, "eval: --text");
  if (options.text_file.empty()) return find_eval_data(loaded, content, seq_len);
  constexpr const char* kOption = "eval: --text-file";
  return make_eval_text(loaded, read_text_argument(options.text_file, kOption), seq_len, kOption);
}

constexpr const char* kEachOnce = "targets, each once";

}  // namespace

void run_eval(const EvalOptions& options) {
  const NamedCheckpoint checkpoint = load_named_checkpoint(options.checkpoint, read_pretrained);
  const CheckpointContent& content = checkpoint.content;
  const LoadedModel loaded = load_model(content, options.overrides, options.weights);
  check(options, loaded);
  const Config& config = loaded.config;
  const EvalData data = choose_data(options, loaded, content);
  const data::BatchLoader loader(*data.dataset, data.seq_len, config.train.batch_size);
  const std::unique_ptr<comm::ProcessGroup> ranks = comm::single_rank();
  ProgressLine line(STDERR_FILENO, write_progress);
  PositionTable table;
  const auto evaluate_split = [&](data::Split split, const char* label, const char* name, const std::string& targets) {
    PositionLosses positions;
    const Evaluation evaluation =
        evaluate(*loaded.model, *data.dataset, loader, split, config.train.rows_per_micro_batch(), 0, *ranks,
                 evaluation_bar(line, name), options.by_position ? &positions : nullptr)
            .value();
    print_evaluation(label, evaluation, targets);
    if (options.by_position) print("{}", table.add(label, positions));
  };
  const auto has = [&](data::Split split) { return loader.num_eval_sequences(split) > 0; };
  require<DataError>(!data.is_of_run || has(data::Split::validation) || has(data::Split::test),
                     "eval: {} was trained without validation and test (data.val_fraction = 0, data.test_fraction = "
                     "0), so there is nothing to evaluate; data.path=FILE evaluates another text",
                     checkpoint.name);
  print("{}, step {}{}\n", quote(checkpoint.name), loaded.step, weights_text(options.weights));
  print_changes(parse_config(content.text("config"), "config"), config, data);
  if (has_text(options)) {
    evaluate_split(data::Split::train, "text", "text", kEachOnce);
  } else if (!data.is_of_run) {
    evaluate_split(data::Split::train, "another text", "text",
                   fmt::format("targets, each once: all of {}; not the run's validation split",
                               data::quoted_path(config.data.path)));
  } else {
    if (has(data::Split::validation)) evaluate_split(data::Split::validation, "validation", "val", kEachOnce);
    if (has(data::Split::test)) evaluate_split(data::Split::test, "test", "test", kEachOnce);
  }
  if (!options.csv.empty()) {
    table.write(options.csv);
    print("file        {}\n", data::quoted_path(options.csv));
  }
}

}  // namespace heed::train
