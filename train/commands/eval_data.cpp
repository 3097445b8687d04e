#include "train/commands/eval_data.hpp"

#include <algorithm>

#include "data/io/posix_file.hpp"
#include "data/line_dataset.hpp"
#include "data/text/text_file.hpp"
#include "data/text_dataset.hpp"
#include "train/commands/prompt.hpp"
#include "train/output/progress.hpp"
#include "train/run/run_data.hpp"
#include "train/trainer/factory.hpp"

namespace heed::train {
namespace {

// All of data.path as one dataset, without splits. seq_len: the length that lines are cut to.
std::unique_ptr<data::Dataset> make_whole_text(const LoadedModel& loaded, int64_t seq_len) {
  Config config = loaded.config;
  DataConfig& d = config.data;
  d.val_fraction = d.test_fraction = 0;
  d.val_lines = d.test_lines = 0;
  // Training needs a full sequence, evaluation only one target, so a shorter text is accepted.
  config.model.seq_len = d.split == data::TextSplit::position ? 1 : seq_len;
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

// Lines are cut to the sequence length when the dataset is made; other datasets are asked for it with each sequence.
bool cuts_lines(const DataConfig& data) {
  return data.source == DataSource::text && data.split == data::TextSplit::lines;
}

void require_any_length(const DataConfig& data, int64_t seq_len, int64_t trained_seq_len) {
  const bool fixed = data.source == DataSource::addition || data.source == DataSource::modular_addition;
  require<ConfigError>(!fixed || seq_len == trained_seq_len,
                       "eval: --seq-len is {}, but each sequence of this dataset is a problem of {} tokens: leave "
                       "--seq-len out",
                       seq_len, trained_seq_len);
}

// The tokens as consecutive sequences, all in Split::train.
class TokenText final : public data::Dataset {
 public:
  TokenText(std::vector<int32_t> tokens, int64_t vocab_size, std::shared_ptr<const data::Tokenizer> tokenizer)
      : tokens_(std::move(tokens)), vocab_size_(vocab_size), tokenizer_(std::move(tokenizer)) {}

  int64_t vocab_size() const override { return vocab_size_; }
  const data::Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  void train_sequence(uint64_t, int64_t, std::span<int32_t>, std::span<int32_t>) const override {
    throw ValueError("a text of the command line is for evaluation, not for training");
  }
  int64_t num_eval_sequences(data::Split split, int64_t seq_len) const override {
    return split == data::Split::train ? data::sequences_to_cover(std::ssize(tokens_) - 1, seq_len) : 0;
  }
  void eval_sequence(data::Split, int64_t index, std::span<int32_t> inputs, std::span<int32_t> targets) const override {
    const size_t first = static_cast<size_t>(index) * inputs.size();
    data::shift_padded_sequence(std::span(tokens_).subspan(first, std::min(inputs.size() + 1, tokens_.size() - first)),
                                inputs, targets);
  }

 private:
  std::vector<int32_t> tokens_;
  int64_t vocab_size_;
  std::shared_ptr<const data::Tokenizer> tokenizer_;
};

std::string normalized(const std::string& text, const data::Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return text;
  std::string result;
  data::TextNormalizer(data::text_form(tokenizer->kind(), tokenizer->end_token().has_value())).add(text, true, result);
  return result;
}

}  // namespace

bool is_set(const Config& config, const char* key) { return config.origin(key).kind == OriginKind::command_line; }

EvalData find_eval_data(const LoadedModel& loaded, const CheckpointContent& content, int64_t seq_len) {
  require_any_length(loaded.config.data, seq_len, loaded.config.model.seq_len);
  Config config = loaded.config;
  if (cuts_lines(config.data)) config.model.seq_len = seq_len;
  auto [dataset, difference] = dataset_of_run(config, loaded.tokenizer, content, text_progress());
  if (difference.empty()) return {std::move(dataset), seq_len, true};
  if (is_set(loaded.config, "data.path")) return {make_whole_text(loaded, seq_len), seq_len, false};
  throw DataError(
      fmt::format("eval: the data is not that of the run ({}): put the old data back, set data.path to where it is, or "
                  "set data.path to another text to evaluate all of that",
                  difference));
}

EvalData make_eval_text(const LoadedModel& loaded, const std::string& text, int64_t seq_len, const std::string& what) {
  const data::Tokenizer* tokenizer = loaded.tokenizer.get();
  std::vector<int32_t> tokens = encode_text(loaded, normalized(text, tokenizer), false, what);
  const bool by_lines = tokenizer != nullptr && tokenizer->end_token();
  const int64_t least = by_lines ? 1 : 2, count = std::ssize(tokens);
  require<DataError>(count >= least, "{} has {} tokens, a text to evaluate needs at least {}", what, count, least);
  if (!by_lines) {
    return {std::make_unique<TokenText>(std::move(tokens), loaded.model->config().vocab_size, loaded.tokenizer),
            std::min(seq_len, count - 1)};
  }
  data::LineDataset::Parts parts{.name = what,
                                 .tokenizer = loaded.tokenizer,
                                 .tokens = std::move(tokens),
                                 .split = {.val_fraction = 0, .test_fraction = 0}};
  return {std::make_unique<data::LineDataset>(std::move(parts), seq_len), seq_len};
}

}  // namespace heed::train
