#include "train/commands/commands.hpp"

#include <unistd.h>

#include <cmath>
#include <numbers>

#include "data/io/posix_file.hpp"
#include "data/text/text_file.hpp"
#include "data/text_dataset.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/comm/init.hpp"
#include "train/config/config_value.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/run/checkpoint_match.hpp"
#include "train/run/reporter.hpp"
#include "train/run/run_data.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/snapshot.hpp"
#include "train/trainer/evaluator.hpp"

namespace heed::train {
namespace {

bool is_set(const Config& config, const char* key) { return config.origin(key).kind == OriginKind::command_line; }

struct EvalData {
  std::unique_ptr<data::Dataset> dataset;
  bool is_of_run = false;  // if false, all of it is in Split::train
};

// All of data.path as one dataset, without splits.
std::unique_ptr<data::Dataset> make_whole_text(const LoadedModel& loaded) {
  Config config = loaded.config;
  DataConfig& d = config.data;
  d.val_fraction = d.test_fraction = 0;
  d.val_lines = d.test_lines = 0;
  // Training needs a full sequence, evaluation only one target, so a shorter text is accepted. Lines are cut to the
  // sequence length of the loader, which is kept.
  if (d.split == data::TextSplit::position) config.model.seq_len = 1;
  if (d.source == DataSource::text) {
    const data::TextFile file(d.path);
    require<DataError>(file.size() > 1, "eval: {} has {} bytes, a text to evaluate needs at least 2", file.name(),
                       file.size());
    return make_dataset(config, loaded.tokenizer, text_progress());
  }
  std::unique_ptr<data::Dataset> dataset =
      data::make_token_dataset({.path = d.path, .seed = d.seed, .seq_len = config.model.seq_len, .whole = true});
  require<DataError>(dataset->tokenizer()->serialize() == loaded.tokenizer->serialize(),
                     "eval: {} was made with another tokenizer than the checkpoint's, so its token ids mean other "
                     "texts to the model: set data.path to a token file made with the tokenizer of the run's data",
                     data::quoted_path(d.path));
  return dataset;
}

EvalData find_data(const LoadedModel& loaded, const CheckpointContent& content) {
  auto [dataset, difference] = dataset_of_run(loaded, content, text_progress());
  if (difference.empty()) return {std::move(dataset), true};
  if (is_set(loaded.config, "data.path")) return {make_whole_text(loaded), false};
  throw DataError(
      fmt::format("eval: the data is not that of the run ({}): put the old data back, set data.path to where it is, or "
                  "set data.path to another text to evaluate all of that",
                  difference));
}

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
void print_changes(const Config& saved, const Config& now, bool is_of_run) {
  if (is_set(now, "data.path") && is_of_run)
    print("data        {}: the data of the run\n", data::quoted_path(now.data.path));
  if (now.train.precision != saved.train.precision) {
    print("precision   {}; the run was trained in {}\n", name(now.train.precision), name(saved.train.precision));
  }
}

}  // namespace

void run_eval(const std::string& checkpoint, const std::vector<std::string>& overrides) {
  const std::string file = checkpoint_of(checkpoint);
  const CheckpointContent content = load_checkpoint(file);
  const LoadedModel loaded = load_model(content, overrides);
  const Config& config = loaded.config;
  require<ConfigError>(
      !is_set(config, "train.batch_size") || config.train.micro_batch_size == 0,
      "eval: train.batch_size has no effect when train.micro_batch_size is set (it is {}): remove it, or set "
      "train.micro_batch_size=0",
      config.train.micro_batch_size);
  const EvalData eval_data = find_data(loaded, content);
  const data::Dataset& dataset = *eval_data.dataset;
  const data::BatchLoader loader(dataset, config.model.seq_len, config.train.batch_size);
  const std::unique_ptr<comm::ProcessGroup> ranks = comm::single_rank();
  ProgressLine line(STDERR_FILENO, write_progress);
  const auto evaluate_split = [&](data::Split split, const char* name) {
    return evaluate(*loaded.model, dataset, loader, split, config.train.rows_per_micro_batch(), 0, *ranks,
                    evaluation_bar(line, name))
        .value();
  };
  const int64_t held_out =
      loader.num_eval_sequences(data::Split::validation) + loader.num_eval_sequences(data::Split::test);
  require<DataError>(!eval_data.is_of_run || held_out > 0,
                     "eval: {} was trained without validation and test (data.val_fraction = 0, data.test_fraction = "
                     "0), so there is nothing to evaluate; data.path=FILE evaluates another text",
                     file);
  print("{}, step {}\n", quote(file), loaded.step);
  print_changes(parse_config(content.text("config"), "config"), config, eval_data.is_of_run);
  if (!eval_data.is_of_run) {
    print_evaluation("another text", evaluate_split(data::Split::train, "text"),
                     fmt::format("targets, each once: all of {}; not the run's validation split",
                                 data::quoted_path(config.data.path)));
    return;
  }
  if (loader.num_eval_sequences(data::Split::validation) > 0) {
    print_evaluation("validation", evaluate_split(data::Split::validation, "val"), "targets, each once");
  }
  if (loader.num_eval_sequences(data::Split::test) > 0) {
    print_evaluation("test", evaluate_split(data::Split::test, "test"), "targets, each once");
  }
}

}  // namespace heed::train
