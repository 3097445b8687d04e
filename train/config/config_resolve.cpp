#include "train/config/config.hpp"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "autograd/core/check.hpp"
#include "data/synthetic/addition_dataset.hpp"
#include "data/synthetic/hidden_markov_dataset.hpp"
#include "data/synthetic/markov_chain.hpp"
#include "data/synthetic/markov_in_context_dataset.hpp"
#include "data/synthetic/modular_addition_dataset.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/toml_reader.hpp"

namespace heed::train {
namespace {

using Chain = data::MarkovChain;

constexpr int64_t kMostTokensPerStep = int64_t{1} << 32;

// The place of the key that a reader would change first: one from the command line, else the last one in the file.
std::string place_of(const Config& config, std::initializer_list<const char*> keys) {
  Origin latest{OriginKind::by_default, 0, config.file_name};
  for (const char* key : keys) {
    const Origin origin = config.origin(key);
    if (std::pair(origin.kind, origin.line) > std::pair(latest.kind, latest.line)) {
      latest = origin;
    }
  }
  return latest.place;
}

template <class... Args>
void require_rule(bool holds, const Config& config, std::initializer_list<const char*> keys,
                  fmt::format_string<Args...> format, Args&&... args) {
  if (!holds) {
    throw ConfigError(fmt::format("{}: {}", place_of(config, keys), fmt::format(format, std::forward<Args>(args)...)));
  }
}

bool power_is_at_most(int64_t base, int64_t exponent, int64_t limit) {
  int64_t power = 1;
  for (int64_t i = 0; i < exponent && power <= limit; ++i) {
    power *= base;
  }
  return power <= limit;
}

// Keys of the file that lose their effect through an override are reset to their defaults. A reset key can make further
// keys lose their effect, hence the loop.
void drop_overridden(Config& config) {
  std::set<std::string> changed;
  for (const KeySpec& key : schema()) {
    if (config.origin(key.path()).kind == OriginKind::command_line) changed.insert(key.path());
  }
  for (bool again = true; again;) {
    again = false;
    for (const KeySpec& key : schema()) {
      const bool beside = std::any_of(key.conditions.begin(), key.conditions.end(),
                                      [&](const KeySpec::Condition& one) { return changed.contains(one.key); });
      if (!(beside || changed.contains(key.replaced_by)) || key.has_effect(config) ||
          config.origin(key.path()).kind != OriginKind::file)
        continue;
      key.reset(config);
      config.given.erase(key.path());
      changed.insert(key.path());
      again = true;
    }
  }
}

void check_presence(const Config& config) {
  for (const KeySpec& key : schema()) {
    const bool is_given = config.given.contains(key.path());
    const char* partner = key.conditions.empty() ? "" : key.conditions.front().key.c_str();
    require_rule(!key.is_required || is_given || !key.has_effect(config), config, {partner},
                 "key {} is missing, it must be {}", key.path(), key.allowed);
    require_rule(!is_given || key.has_effect(config), config, {key.path().c_str()},
                 "key {} has no effect here, it is only for {}: remove it", key.path(), key.condition());
  }
}

// If the command line shortens a run, values of the file for a longer run are lowered instead of being an error.
void lower_to_steps(Config& config, const char* key, int64_t& value) {
  const int64_t steps = config.train.steps;
  if (value <= steps || config.origin(key).kind != OriginKind::file ||
      config.origin("train.steps").kind != OriginKind::command_line)
    return;
  config.notices.push_back(fmt::format("{0} = {1} exceeds train.steps = {2} and is lowered to {2}", key, value, steps));
  value = steps;
}

// The decay of a shortened run must leave its warm-up.
void lower_decay_steps(Config& config) {
  const int64_t steps = config.train.steps, left = steps - config.optim.warmup_steps;
  int64_t& value = config.optim.decay_steps;
  if (value <= left || left < 1 || config.origin("optim.decay_steps").kind != OriginKind::file ||
      config.origin("train.steps").kind != OriginKind::command_line)
    return;
  config.notices.push_back(
      fmt::format("optim.decay_steps = {} exceeds train.steps = {} minus warmup_steps = {} and is lowered to {}", value,
                  steps, config.optim.warmup_steps, left));
  value = left;
}

void note_idle_seed(Config& config) {
  if (!config.given.contains("train.seed") || uses_train_seed(config)) return;
  config.notices.emplace_back(
      "train.seed has no effect: dropout is 0; the seeds that change a run are model.seed and data.seed");
}

bool uses_bpe(const DataConfig& data) {
  return data.source == DataSource::text && data.tokenizer == data::TokenizerKind::bpe;
}

// data.source_seed does not follow `seed`, so that runs of several seeds are on the same language.
void fill_in_seeds(Config& config) {
  const uint32_t seed = config.global.seed;
  if (!config.given.contains("model.seed")) config.model.seed = seed;
  if (!config.given.contains("data.seed")) config.data.seed = seed;
  if (!config.given.contains("train.seed")) config.train.seed = seed;
  if (!config.given.contains("data.source_seed") && config.given.contains("data.seed"))
    config.data.source_seed = config.data.seed;
}

void fill_in_alpha(DataConfig& data) {
  constexpr double kFirst[] = {32.0, 8.0};
  data.alpha.assign(static_cast<std::size_t>(data.num_alphas()), data.is_markov_chain() ? 4.0 : 1.0);
  if (data.is_markov_chain()) std::copy_n(kFirst, std::min(data.alpha.size(), std::size(kFirst)), data.alpha.begin());
}

void fill_in_optim(Config& config) {
  OptimConfig& optim = config.optim;
  const bool is_muon = optim.optimizer == OptimizerKind::muon;
  if (!config.given.contains("optim.momentum")) optim.momentum = is_muon ? 0.95 : 0.0;
  if (!config.given.contains("optim.adamw_learning_rate")) optim.adamw_learning_rate = optim.learning_rate;
  if (config.given.contains("optim.decay_steps")) return;
  const int64_t steps = config.train.steps, after_warmup = std::max<int64_t>(steps - optim.warmup_steps, 0);
  optim.decay_steps = std::min(std::max<int64_t>(steps / 5, 1), after_warmup);
}

void fill_in(Config& config) {
  fill_in_seeds(config);
  if (config.data.is_synthetic()) config.model.vocab_size = config.data.synthetic_vocab_size();
  if (uses_bpe(config.data) && !config.given.contains("data.vocab_size")) config.data.vocab_size = 512;
  config.model.num_kv_heads = config.model.kv_heads();
  config.model.d_ff = config.model.feed_forward_size();
  fill_in_optim(config);
  if (!config.given.contains("data.alpha")) fill_in_alpha(config.data);
  if (config.train.run_dir.empty()) {
    // Set through the key, so that the resolved config can be parsed again.
    const std::string stem = std::filesystem::path(config.file_name).stem().string();
    const std::optional<ConfigValue> value = read_toml_value(quote("runs/" + stem));
    require_rule(value && find_key("train", "run_dir")->set(config, *value), config, {"train.run_dir"},
                 "the name of the file is not plain UTF-8, so key train.run_dir must be given");
  }
}

void check_model(const Config& config) {
  const nn::GptConfig& model = config.model;
  require_rule(model.d_model % model.num_heads == 0, config, {"model.d_model", "model.num_heads"},
               "d_model = {} is not a multiple of num_heads = {}: change one of them", model.d_model, model.num_heads);
  require_rule(model.num_heads % model.num_kv_heads == 0, config, {"model.num_heads", "model.num_kv_heads"},
               "num_heads = {} is not a multiple of num_kv_heads = {}: change one of them", model.num_heads,
               model.num_kv_heads);
  require_rule(model.sliding_window > 0 || model.window_pattern == nn::GptConfig{}.window_pattern, config,
               {"model.window_pattern"}, "window_pattern has no effect without sliding_window: remove it or set that");
  require_rule(model.position != nn::Position::rope || model.rope_columns() >= 2, config,
               {"model.rope_fraction", "model.d_model", "model.num_heads"},
               "rope_fraction = {} of the head size {} (d_model / num_heads) makes {} columns, they must be an even "
               "number: change one of these keys",
               model.rope_fraction, model.head_size(), model.rope_fraction * static_cast<double>(model.head_size()));
}

void check_offsets(const Config& config) {
  std::vector<int64_t> sorted = config.data.offsets;
  std::sort(sorted.begin(), sorted.end());
  require_rule(!sorted.empty(), config, {"data.offsets"}, "offsets is empty, it must have at least one element");
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  require_rule(twice == sorted.end(), config, {"data.offsets"}, "offsets = {} has an element twice, all must differ",
               find_key("data", "offsets")->get(config));
}

// The dataset checks this, too, but only when it is created.
void check_chain_size(const Config& config) {
  const DataConfig& data = config.data;
  const bool is_ngram = data.source == DataSource::ngram;
  const std::string depth = is_ngram ? "order" : "offsets";
  const std::string depth_value = find_key("data", depth)->get(config);
  const int64_t memory = is_ngram ? data.order - 1 : *std::max_element(data.offsets.begin(), data.offsets.end());
  const bool is_stationary = data.prefix == SequencePrefix::stationary;
  require_rule(!is_stationary || power_is_at_most(data.vocab_size, memory, Chain::kMaxStates), config,
               {"data.vocab_size", "data.order", "data.offsets"},
               "vocab_size = {} and {} = {} make {}^{} states, at most {} are allowed: lower one of them, or set "
               "data.prefix = \"uniform\"",
               data.vocab_size, depth, depth_value, data.vocab_size, memory, Chain::kMaxStates);
  require_rule(is_stationary || memory <= config.model.seq_len, config, {"data.order", "data.offsets", "model.seq_len"},
               "{} = {} looks back {} tokens, with prefix = \"uniform\" at most model.seq_len = {} are allowed: change "
               "one of them",
               depth, depth_value, memory, config.model.seq_len);
  require_rule(power_is_at_most(data.vocab_size, data.num_alphas(), Chain::kMaxTableEntries), config,
               {"data.vocab_size", "data.order", "data.offsets"},
               "vocab_size = {} and {} = {} make {}^{} probabilities, at most {} are allowed: lower one of them",
               data.vocab_size, depth, depth_value, data.vocab_size, data.num_alphas(), Chain::kMaxTableEntries);
  require_rule(static_cast<int64_t>(data.alpha.size()) == data.num_alphas(), config,
               {"data.alpha", "data.order", "data.offsets"},
               "alpha has {} elements, {} = {} needs {}: the first for no context, then one for each token of context",
               data.alpha.size(), depth, depth_value, data.num_alphas());
}

void check_task(const Config& config) {
  const DataConfig& data = config.data;
  const std::string source = find_key("data", "source")->get(config);
  require_rule(static_cast<int64_t>(data.alpha.size()) == data.num_alphas(), config, {"data.alpha", "data.source"},
               "alpha has {} elements, with source = {} it must have {}", data.alpha.size(), source, data.num_alphas());
  require_rule(
      data.source != DataSource::markov_in_context || data.vocab_size <= data::MarkovInContextDataset::kMaxVocabSize,
      config, {"data.vocab_size", "data.source"}, "vocab_size = {}, with source = {} it must be at most {}",
      data.vocab_size, source, data::MarkovInContextDataset::kMaxVocabSize);
  require_rule(data.min_period <= data.max_period, config, {"data.min_period", "data.max_period"},
               "min_period = {} is more than max_period = {}: change one of them", data.min_period, data.max_period);
  using data::HiddenMarkovDataset;
  require_rule(data.source != DataSource::hidden_markov ||
                   data.vocab_size <= HiddenMarkovDataset::kMaxTableEntries / data.num_states,
               config, {"data.vocab_size", "data.num_states"},
               "vocab_size = {} and num_states = {} make more than {} emission probabilities: lower one of them",
               data.vocab_size, data.num_states, HiddenMarkovDataset::kMaxTableEntries);
  using data::AdditionDataset;
  require_rule(data.source != DataSource::addition || data.val_fraction == 0 ||
                   (AdditionDataset::kMinValFraction <= data.val_fraction &&
                    data.val_fraction <= AdditionDataset::kMaxValFraction),
               config, {"data.val_fraction", "data.source"},
               "val_fraction = {}, with source = {} it must be 0 or {} to {}", data.val_fraction, source,
               AdditionDataset::kMinValFraction, AdditionDataset::kMaxValFraction);
  const int64_t seq_len = data.required_seq_len();
  require_rule(
      seq_len == 0 || config.model.seq_len == seq_len, config, {"model.seq_len", "data.source", "data.digits"},
      "seq_len = {}, source = {} needs exactly {}, the tokens of a + b = c but the last: set model.seq_len = {}",
      config.model.seq_len, source, seq_len, seq_len);
}

void check_data(const Config& config) {
  const DataConfig& data = config.data;
  if (data.source == DataSource::skip) check_offsets(config);
  if (data.is_markov_chain()) {
    check_chain_size(config);
  } else if (data.is_synthetic()) {
    check_task(config);
  }
  require_rule(data.val_fraction + data.test_fraction < 1, config, {"data.val_fraction", "data.test_fraction"},
               "val_fraction = {} and test_fraction = {} leave nothing to train on: lower one of them",
               data.val_fraction, data.test_fraction);
}

void check_optim(const Config& config) {
  const OptimConfig& optim = config.optim;
  require_rule(config.model.mup_base_width == 0 || optim.optimizer != OptimizerKind::sgd, config,
               {"model.mup_base_width", "optim.optimizer"},
               "mup_base_width = {} scales learning rates for AdamW and Muon, but optimizer = \"sgd\": set "
               "optim.optimizer = \"adamw\" or \"muon\", or model.mup_base_width = 0",
               config.model.mup_base_width);
  require_rule(optim.min_learning_rate <= optim.learning_rate, config,
               {"optim.learning_rate", "optim.min_learning_rate"},
               "min_learning_rate = {} is more than learning_rate = {}: change one of them", optim.min_learning_rate,
               optim.learning_rate);
  require_rule(!config.model.tie_embeddings || optim.head_lr_scale == 1, config,
               {"optim.head_lr_scale", "model.tie_embeddings"},
               "head_lr_scale = {} is for an untied head, but with tie_embeddings = true the head is the token "
               "embedding: set optim.embedding_lr_scale instead, or model.tie_embeddings = false",
               optim.head_lr_scale);
  require_rule(optim.warmup_steps <= config.train.steps, config, {"optim.warmup_steps", "train.steps"},
               "warmup_steps = {0} is more than steps = {1}: set optim.warmup_steps to at most {1}, or for a short run "
               "of a longer schedule set train.steps to at least {0} and train.stop_after={1}",
               optim.warmup_steps, config.train.steps);
  require_rule(optim.schedule != ScheduleKind::wsd || optim.decay_steps <= config.train.steps - optim.warmup_steps,
               config, {"optim.decay_steps", "optim.warmup_steps", "train.steps"},
               "warmup_steps = {} and decay_steps = {} are together more than steps = {}: lower one of them, or for a "
               "short run of a longer schedule set train.stop_after",
               optim.warmup_steps, optim.decay_steps, config.train.steps);
}

void check_train(const Config& config) {
  require_rule(config.train.stop_after <= config.train.steps, config, {"train.stop_after", "train.steps"},
               "stop_after = {} is more than steps = {}: change one of them", config.train.stop_after,
               config.train.steps);
  require_rule(!config.train.tf32 || config.train.precision == DType::f32, config, {"train.tf32", "train.precision"},
               "tf32 = true is for f32 matmuls, not with precision = \"{}\": change one of them",
               name(config.train.precision));
  require_rule(!config.train.log_layers || !config.train.shard_optimizer, config,
               {"train.log_layers", "train.shard_optimizer"},
               "log_layers = true needs all gradients on one rank, but shard_optimizer = true shards them: set one of "
               "the two to false");
}

void check_shares(const Config& config) {
  const TrainConfig& train = config.train;
  if (train.micro_batch_size == 0) {
    require_rule(train.batch_size % train.ranks == 0, config, {"train.batch_size"},
                 "batch_size = {} is not a multiple of the number of ranks, {}: change train.batch_size or the number "
                 "of ranks",
                 train.batch_size, train.ranks);
    return;
  }
  require_rule(train.batch_size % (train.ranks * train.micro_batch_size) == 0, config,
               {"train.batch_size", "train.micro_batch_size"},
               "batch_size = {} is not a multiple of ranks ({}) times micro_batch_size = {}: change one of them",
               train.batch_size, train.ranks, train.micro_batch_size);
}

void check_batch(const Config& config) {
  const auto& [model, train] = std::tie(config.model, config.train);
  check_shares(config);
  require_rule(train.batch_size <= kMostTokensPerStep / model.seq_len, config, {"train.batch_size", "model.seq_len"},
               "batch_size = {} times seq_len = {} is more than 2^32 tokens per step: lower one of them",
               train.batch_size, model.seq_len);
  // Attention dropout numbers the attention probabilities over the whole batch; a double is exact enough far below
  // 2^63.
  const double weights = static_cast<double>(train.batch_size) * static_cast<double>(model.num_heads) *
                         static_cast<double>(model.seq_len) * static_cast<double>(model.seq_len);
  require_rule(
      weights <= 0x1p62, config, {"train.batch_size", "model.num_heads", "model.seq_len"},
      "batch_size = {}, num_heads = {} and seq_len = {} make more than 2^62 attention probabilities: lower one of them",
      train.batch_size, model.num_heads, model.seq_len);
}

}  // namespace

int64_t DataConfig::num_alphas() const {
  switch (source) {
    case DataSource::ngram:
      return order;
    case DataSource::skip:
      return static_cast<int64_t>(offsets.size()) + 1;
    case DataSource::markov_in_context:
      return 1;
    case DataSource::hidden_markov:
      return 2;
    default:
      return 0;
  }
}

int64_t DataConfig::synthetic_vocab_size() const {
  switch (source) {
    case DataSource::dyck:
      return 2 * num_brackets;
    case DataSource::modular_addition:
      return modulus + 1;
    case DataSource::addition:
      return data::AdditionDataset::kVocabSize;
    default:
      return vocab_size;
  }
}

int64_t DataConfig::required_seq_len() const {
  if (source == DataSource::modular_addition) return data::ModularAdditionDataset::kSeqLen;
  return source == DataSource::addition ? data::AdditionDataset::seq_len_of(digits) : 0;
}

bool uses_train_seed(const Config& config) { return config.model.dropout > 0 || config.model.attention_dropout > 0; }

void share_batch(Config& config, int64_t ranks) {
  config.train.ranks = ranks;
  check_shares(config);
}

void resolve_config(Config& config) {
  drop_overridden(config);
  check_presence(config);
  lower_to_steps(config, "optim.warmup_steps", config.optim.warmup_steps);
  fill_in(config);
  lower_decay_steps(config);
  lower_to_steps(config, "train.stop_after", config.train.stop_after);
  note_idle_seed(config);
  check_model(config);
  check_data(config);
  check_optim(config);
  check_train(config);
  check_batch(config);
}

}  // namespace heed::train
