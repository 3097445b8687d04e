#include "train/commands/inspect_command.hpp"

#include <filesystem>

#include "data/io/posix_file.hpp"
#include "data/io/utf8.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/commands/prompt.hpp"
#include "train/huggingface/read_pretrained.hpp"
#include "train/inspect/inspect_folder.hpp"
#include "train/inspect/inspection_report.hpp"
#include "train/output/number_text.hpp"
#include "train/output/output.hpp"
#include "train/output/progress.hpp"
#include "train/plot/plot.hpp"
#include "train/run/past_step.hpp"
#include "train/run/run_data.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

struct Sequences {
  data::Batch batch;
  std::vector<int64_t> lengths;  // without padding
  std::string description;
  std::unique_ptr<data::Dataset> dataset;  // of which they are sequences, or nullptr
};

Sequences sequences_of_text(const LoadedModel& loaded, const std::string& text) {
  const std::vector<int32_t> tokens = make_prompt(loaded, text, false, "inspect: --text").tokens;
  const auto length = static_cast<int64_t>(tokens.size()), most = loaded.model->config().seq_len;
  require<DataError>(2 <= length && length <= most,
                     "inspect: --text has {} tokens; it must have 2 to {}, which is model.seq_len", length, most);
  data::Batch batch{.rows = 1, .seq_len = length, .inputs = tokens, .targets = {tokens.begin() + 1, tokens.end()}};
  batch.targets.push_back(data::kIgnoreTarget);
  return {.batch = std::move(batch),
          .lengths = {length},
          .description = fmt::format("1 text, {} tokens", length),
          .dataset = nullptr};
}

Sequences repeated_sequences(const LoadedModel& loaded, int64_t count) {
  const int64_t length = loaded.model->config().seq_len, vocab_size = loaded.model->config().vocab_size;
  require<ConfigError>(length >= 4, "inspect: --task repeat needs model.seq_len of at least 4, the model has {}",
                       length);
  data::Batch batch{.rows = count, .seq_len = length, .inputs = {}, .targets = {}};
  batch.inputs.resize(count * length);
  batch.targets.resize(count * length);
  std::vector<int32_t> tokens(length + 1);
  for (int64_t row = 0; row < count; ++row) {
    const RandomStream random{
        .seed = 1, .site = random_site(RandomDomain::sampling), .step = static_cast<uint64_t>(row)};
    const int64_t shortest = length / 4, longest = length / 2;
    const int64_t period = shortest + data::random_below(random, 0, longest - shortest + 1);
    for (int64_t t = 0; t <= length; ++t) {
      tokens[t] = t < period ? static_cast<int32_t>(data::random_below(random, t + 1, vocab_size)) : tokens[t - period];
    }
    data::shift_sequence(tokens, std::span(batch.inputs).subspan(row * length, length),
                         std::span(batch.targets).subspan(row * length, length));
  }
  return {.batch = std::move(batch),
          .lengths = std::vector<int64_t>(count, length),
          .description = fmt::format("{} sequences of {} random tokens, repeated after {} to {}", count, length,
                                     length / 4, length / 2),
          .dataset = nullptr};
}

Sequences sequences_of_run(const LoadedModel& loaded, const CheckpointContent& content, int64_t count) {
  RunData run = dataset_of_run(loaded.config, loaded.tokenizer, content, text_progress());
  require<DataError>(run.difference.empty(),
                     "inspect: the data is not that of the run ({}): put the old data back, set data.path to where it "
                     "is, or inspect a text with --text",
                     run.difference);
  const data::BatchLoader loader(*run.dataset, loaded.config.model.seq_len, 1);
  const bool has_validation = loader.num_eval_sequences(data::Split::validation) > 0;
  const data::Split split = has_validation ? data::Split::validation : data::Split::train;
  const int64_t rows = std::min(count, loader.num_eval_sequences(split));
  data::Batch batch = loader.eval_batch(split, 0, rows);
  std::vector<int64_t> lengths = lengths_by_targets(batch);
  return {.batch = std::move(batch),
          .lengths = std::move(lengths),
          .description = fmt::format("{} {} sequences of {} tokens", rows, has_validation ? "validation" : "training",
                                     loader.seq_len()),
          .dataset = std::move(run.dataset)};
}

Sequences choose_sequences(const InspectOptions& options, const LoadedModel& loaded, const CheckpointContent& content) {
  if (options.has_text) return sequences_of_text(loaded, options.text);
  if (options.task == InspectTask::repeat) return repeated_sequences(loaded, options.num_sequences);
  return sequences_of_run(loaded, content, options.num_sequences);
}

// The mean over the sequences of the dataset's own loss at each position; empty if it has no exact distribution.
std::vector<double> exact_position_loss(const Sequences& sequences) {
  if (sequences.dataset == nullptr) return {};
  const data::Batch& batch = sequences.batch;
  std::vector<double> sums(batch.seq_len), counts(batch.seq_len);
  for (int64_t row = 0; row < batch.rows; ++row) {
    const auto losses =
        sequences.dataset->target_losses(std::span(batch.inputs).subspan(row * batch.seq_len, batch.seq_len),
                                         std::span(batch.targets).subspan(row * batch.seq_len, batch.seq_len));
    if (!losses) return {};
    for (int64_t t = 0; t < batch.seq_len; ++t) {
      const int32_t target = batch.targets[row * batch.seq_len + t];
      if (target == data::kIgnoreTarget) continue;
      sums[t] += (*losses)[t];
      counts[t] += 1;
    }
  }
  for (size_t t = 0; t < sums.size(); ++t) sums[t] /= counts[t];
  return sums;
}

std::function<std::string(int32_t)> token_text(const LoadedModel& loaded) {
  if (loaded.tokenizer == nullptr) return [](int32_t id) { return std::to_string(id); };
  return [tokenizer = loaded.tokenizer](int32_t id) {
    const std::string_view bytes = tokenizer->bytes(id);
    return bytes == "\n" ? std::string("\"\\n\"") : data::quoted_text(bytes);
  };
}

// The token that ends a segment of text: the tokenizer's end token, else its line feed, else none.
std::optional<int32_t> separator_of(const LoadedModel& loaded) {
  if (loaded.tokenizer == nullptr) return {};
  if (loaded.tokenizer->end_token()) return loaded.tokenizer->end_token();
  for (int32_t id = 0; id < loaded.tokenizer->vocab_size(); ++id) {
    if (loaded.tokenizer->bytes(id) == "\n") return id;
  }
  return {};
}

fs::path output_folder(const InspectOptions& options, const NamedCheckpoint& checkpoint) {
  if (!options.output.empty()) return options.output;
  require<ConfigError>(read_mark(checkpoint.run).has_value(),
                       "inspect: {} is not in a run folder: choose the folder to write to with --output",
                       data::quoted_path(checkpoint.name));
  return checkpoint.run / kInspectFolder;
}

// Returns the name of the picture, or why there is none: the tables do not need it.
std::string draw_attention(const InspectionReport& report, const InspectFolder& folder) {
  try {
    folder.write("attention.svg", draw_picture(heads_document(report), "svg"));
    return "attention.svg";
  } catch (const PythonError& error) {
    folder.remove("attention.svg");  // of an earlier inspection
    return fmt::format("no picture: {}", error.what());
  }
}

}  // namespace

void run_inspect(const InspectOptions& options) {
  const NamedCheckpoint checkpoint = load_named_checkpoint(options.checkpoint, read_pretrained);
  const CheckpointContent& content = checkpoint.content;
  const LoadedModel loaded = load_model(content, options.overrides, options.weights);
  const InspectFolder folder(output_folder(options, checkpoint));
  const Sequences sequences = choose_sequences(options, loaded, content);
  const InspectionReport report{
      .inspection = inspect(*loaded.model, sequences.batch, sequences.lengths, separator_of(loaded)),
      .sequences = sequences.batch,
      .checkpoint = fmt::format("{}, step {}{}", checkpoint.name, loaded.step, weights_text(options.weights)),
      .description = sequences.description,
      .shows_tokens = options.has_text,
      .token_text = token_text(loaded),
      .exact_position_loss = exact_position_loss(sequences),
  };
  print("{}", inspection_text(report));
  save_checkpoint(folder.path() / "inspect.h5", inspection_content(report));
  folder.write("heads.csv", heads_csv(report.inspection));
  print("\nfiles       {}, heads.csv, {}\n", data::quoted_path((folder.path() / "inspect.h5").string()),
        draw_attention(report, folder));
}

}  // namespace heed::train
