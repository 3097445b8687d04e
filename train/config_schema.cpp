#include "train/config_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "data/dirichlet.hpp"
#include "data/markov_chain.hpp"
#include "train/value_format.hpp"

namespace heed::train {
namespace {

// The keys of one table, which are the members of one struct of Config.
template <class Struct>
class Table {
 public:
  Table(std::vector<KeySpec>& keys, std::string name, Struct Config::*section)
      : keys_(keys), name_(std::move(name)), section_(section) {}

  template <class T>
  KeySpec& add(std::string name, T Struct::*member, const ValueFormat<T>& format, std::string meaning) {
    KeySpec& key = keys_.emplace_back();
    key.table = name_;
    key.name = std::move(name);
    key.meaning = std::move(meaning);
    key.allowed = format.allowed;
    key.is_text = format.is_text;
    key.set = [section = section_, member, read = format.read](Config& config, const ConfigValue& value) {
      const std::optional<T> result = read(value);
      config.*section.*member = result.value_or(config.*section.*member);
      return result.has_value();
    };
    key.reset = [section = section_, member](Config& config) { config.*section.*member = Struct{}.*member; };
    key.get = [section = section_, member, write = format.write](const Config& config) {
      return write(config.*section.*member);
    };
    return key;
  }

 private:
  std::vector<KeySpec>& keys_;
  std::string name_;
  Struct Config::*section_;
};

// Largest values are far above what runs, and small enough that no count of elements or bytes overflows int64.
// Smallest values above 0 are those that do not vanish in f32.

void add_model_keys(std::vector<KeySpec>& keys) {
  using nn::Activation, nn::GptConfig, nn::NormPosition, nn::Position;
  Table<GptConfig> model(keys, "model", &Config::model);
  model.add("num_layers", &GptConfig::num_layers, integer(1, 1024), "Transformer blocks");
  model.add("d_model", &GptConfig::d_model, integer(1, 65536), "width of the residual stream");
  model.add("num_heads", &GptConfig::num_heads, integer(1, 65536), "attention heads; must divide d_model");
  model
      .add("num_kv_heads", &GptConfig::num_kv_heads, integer(1, 65536),
           "heads of keys and values; must divide num_heads")
      .default_is("num_heads");
  model.add("d_ff", &GptConfig::d_ff, integer(1, 1'048'576), "width inside the feed-forward layer")
      .default_is("4 * d_model");
  model.add("seq_len", &GptConfig::seq_len, integer(1, 1'048'576), "tokens per sequence");
  model.add("norm_position", &GptConfig::norm_position,
            choice<NormPosition>({{"pre", NormPosition::pre}, {"post", NormPosition::post}}),
            "LayerNorm before a sublayer, or after adding its output");
  model.add("norm_eps", &GptConfig::norm_eps, number(1e-12, 1), "added to the variance in LayerNorm");
  model.add("activation", &GptConfig::activation,
            choice<Activation>({{"gelu", Activation::gelu}, {"relu", Activation::relu}}), "of the feed-forward layer");
  model.add("position", &GptConfig::position,
            choice<Position>(
                {{"learned", Position::learned}, {"sinusoidal", Position::sinusoidal}, {"none", Position::none}}),
            "added to the token embeddings");
  // With p = 1 nothing would be left, nor would it with a p that rounds to 1.
  model.add("dropout", &GptConfig::dropout, number(0, 0.99), "share of embeddings and sublayer outputs set to 0");
  model.add("attention_dropout", &GptConfig::attention_dropout, number(0, 0.99), "share of attention weights set to 0");
  model.add("bias", &GptConfig::bias, boolean(), "linear layers and LayerNorm have a bias");
  model.add("tie_embeddings", &GptConfig::tie_embeddings, boolean(), "the output layer is the token embedding");
  model.add("init_std", &GptConfig::init_std, number(1e-6, 10), "standard deviation of the initial weights");
  model.add("seed", &GptConfig::seed, seed_number(), "of the initial weights");
}

void add_text_keys(Table<DataConfig>& source) {
  using data::TextSplit, data::TokenizerKind;
  source
      .add("tokenizer", &DataConfig::tokenizer,
           choice<TokenizerKind>(
               {{"char", TokenizerKind::character}, {"byte", TokenizerKind::byte}, {"bpe", TokenizerKind::bpe}}),
           "what a token is")
      .only_with("data.source", {"text"});
  source
      .add("split", &DataConfig::split,
           choice<TextSplit>({{"position", TextSplit::position}, {"lines", TextSplit::lines}}),
           "cut by place in the text, or each line a sequence of its own")
      .only_with("data.source", {"text"});
  source
      .add("val_fraction", &DataConfig::val_fraction, number(0, 0.99),
           "share of the text for validation; 0: none, so no evaluation and no best.h5")
      .only_with("data.source", {"text"})
      .unless("data.val_lines");
  source.add("test_fraction", &DataConfig::test_fraction, number(0, 0.99), "share of the text for the test")
      .only_with("data.source", {"text"})
      .unless("data.test_lines");
  source
      .add("val_lines", &DataConfig::val_lines, integer(0, 1'000'000'000),
           "lines for validation instead of a share; 0: by val_fraction")
      .only_with("data.split", {"lines"});
  source
      .add("test_lines", &DataConfig::test_lines, integer(0, 1'000'000'000),
           "lines for the test instead of a share; 0: by test_fraction")
      .only_with("data.split", {"lines"});
}

void add_data_keys(std::vector<KeySpec>& keys) {
  Table<DataConfig> source(keys, "data", &Config::data);
  source
      .add("source", &DataConfig::source,
           choice<DataSource>({{"ngram", DataSource::ngram},
                               {"skip", DataSource::skip},
                               {"text", DataSource::text},
                               {"tokens", DataSource::tokens}}),
           "where tokens come from")
      .required();
  source.add("vocab_size", &DataConfig::vocab_size, integer(2, 65536), "different tokens")
      .default_is("32, for bpe 512")
      .only_with("data.source", {"ngram", "skip"})
      .only_with("data.tokenizer", {"bpe"});
  source
      .add("order", &DataConfig::order, integer(1, data::MarkovChain::kMaxMemory + 1),
           "a token depends on the order - 1 before it")
      .only_with("data.source", {"ngram"});
  source
      .add("offsets", &DataConfig::offsets, list(integer(1, data::MarkovChain::kMaxMemory)),
           "a token depends on those this far before it; all different")
      .required()
      .only_with("data.source", {"skip"});
  source
      .add("alpha", &DataConfig::alpha, list(number(data::kMinAlpha, data::kMaxAlpha)),
           "Dirichlet concentrations: without context, then with one token more each")
      .default_is("[32, 8, 4, 4, …]")
      .only_with("data.source", {"ngram", "skip"});
  source.add("seed", &DataConfig::seed, seed_number(), "of the source and of the sequences drawn from it");
  source.add("path", &DataConfig::path, path_name(), "the file, from the current folder")
      .required()
      .changeable()
      .only_with("data.source", {"text", "tokens"});
  add_text_keys(source);
}

void add_optim_keys(std::vector<KeySpec>& keys) {
  Table<OptimConfig> optim(keys, "optim", &Config::optim);
  optim.add("optimizer", &OptimConfig::optimizer,
            choice<OptimizerKind>({{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}}),
            "sgd has no momentum");
  optim.add("learning_rate", &OptimConfig::learning_rate, number(1e-12, 1e30), "highest, reached after the warm-up");
  optim
      .add("min_learning_rate", &OptimConfig::min_learning_rate, number(0, 1e30),
           "where the schedule leads to, one update behind the last")
      .only_with("optim.schedule", {"cosine", "linear"});
  optim.add(
      "schedule", &OptimConfig::schedule,
      choice<ScheduleKind>(
          {{"cosine", ScheduleKind::cosine}, {"linear", ScheduleKind::linear}, {"constant", ScheduleKind::constant}}),
      "of the learning rate after the warm-up");
  optim.add("warmup_steps", &OptimConfig::warmup_steps, integer(0, 1'000'000'000),
            "updates over which the learning rate rises; at most steps");
  optim.add("weight_decay", &OptimConfig::weight_decay, number(0, 1000),
            "of parameters with two or more dimensions, times the learning rate");
  // 1 - beta must not vanish in f32.
  optim.add("beta1", &OptimConfig::beta1, number(0, 0.999999), "decay of the running mean of the gradient")
      .only_with("optim.optimizer", {"adamw"});
  optim.add("beta2", &OptimConfig::beta2, number(0, 0.999999), "decay of the running mean of its square")
      .only_with("optim.optimizer", {"adamw"});
  optim.add("eps", &OptimConfig::eps, number(1e-20, 1), "added to the root of that mean")
      .only_with("optim.optimizer", {"adamw"});
  optim.add("clip_norm", &OptimConfig::clip_norm, number(0, 1e6),
            "largest norm of all gradients together; 0: no limit");
}

void add_train_keys(std::vector<KeySpec>& keys) {
  Table<TrainConfig> train(keys, "train", &Config::train);
  train.add("steps", &TrainConfig::steps, integer(1, 1'000'000'000), "updates").changeable();
  train
      .add("stop_after", &TrainConfig::stop_after, integer(0, 1'000'000'000),
           "end after this many updates of the schedule over steps; 0: after all")
      .changeable();
  train.add("batch_size", &TrainConfig::batch_size, integer(1, 1'048'576),
            "sequences per update, over all ranks and micro-batches");
  train
      .add("micro_batch_size", &TrainConfig::micro_batch_size, integer(0, 1'048'576),
           "sequences in memory at a time; must divide batch_size; 0: all")
      .changeable();
  train.add("seed", &TrainConfig::seed, seed_number(), "of the dropout masks");
  train
      .add("device", &TrainConfig::device,
           choice<DeviceChoice>(
               {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}}),
           "where the model runs; auto: a CUDA device where there is one")
      .changeable();
  train
      .add("cuda_graph", &TrainConfig::cuda_graph, boolean(),
           "on CUDA: record an update once and replay it, instead of giving each operation to the device")
      .only_with("train.device", {"auto", "cuda"})
      .changeable();
  train
      .add("tf32", &TrainConfig::tf32, boolean(),
           "on CUDA: products of f32 on tensor cores, with inputs cut to 10 bits of fraction")
      .only_with("train.device", {"auto", "cuda"});
  train.add("precision", &TrainConfig::precision,
            choice<DType>({{"f32", DType::f32}, {"bf16", DType::bf16}, {"f64", DType::f64}}),
            "of arithmetic; bf16: activations and products, while weights, moments, gradients and sums stay f32");
  train.add("recompute", &TrainConfig::recompute, boolean(), "compute each block again in backward, to save memory")
      .changeable();
  train
      .add("detect_anomaly", &TrainConfig::detect_anomaly, boolean(),
           "name the operation that made the first NaN or infinity")
      .changeable();
  train
      .add("shard_optimizer", &TrainConfig::shard_optimizer, boolean(),
           "with several ranks: each keeps the optimizer's memory, and in bf16 the f32 weights, of its part only "
           "(ZeRO-1)")
      .changeable();
  train
      .add(
          "comm_timeout_s", &TrainConfig::comm_timeout_s, number(0.1, 1e6),
          "with several ranks: longest wait for another rank before the run ends, also for one that saves or evaluates")
      .changeable();
  train.add("eval_interval", &TrainConfig::eval_interval, integer(1, 1'000'000'000), "updates between evaluations")
      .changeable();
  train
      .add("eval_batches", &TrainConfig::eval_batches, integer(0, 1'000'000'000),
           "batches per evaluation; 0: the whole split")
      .changeable();
  train
      .add("final_eval", &TrainConfig::final_eval,
           choice<FinalEval>({{"full", FinalEval::full}, {"subset", FinalEval::subset}, {"none", FinalEval::none}}),
           "evaluation at the end of the run: the full splits, the first eval_batches batches, or none")
      .changeable();
  train.add("log_interval", &TrainConfig::log_interval, integer(1, 1'000'000'000), "updates between lines of the log")
      .changeable();
  train.add("run_dir", &TrainConfig::run_dir, path_name(), "folder of the run, from the current folder")
      .default_is("runs/ and the name of the config file")
      .changeable();
  train
      .add("existing_run", &TrainConfig::existing_run,
           choice<ExistingRun>({{"move", ExistingRun::move}, {"refuse", ExistingRun::refuse}}),
           "an earlier finished or stopped run in train.run_dir: move it aside to run_dir.1, .2, …, or refuse to start")
      .changeable();
  train
      .add("save_interval", &TrainConfig::save_interval, integer(0, 1'000'000'000),
           "updates between checkpoints; 0: only at the end")
      .changeable();
  train
      .add("keep_checkpoints", &TrainConfig::keep_checkpoints, integer(0, 1'000'000),
           "earlier checkpoints that stay beside the last and the best")
      .changeable();
}

std::vector<std::string> table_names() {
  std::vector<std::string> names;
  for (const KeySpec& key : schema()) {
    if (names.empty() || names.back() != key.table) {
      names.push_back(key.table);
    }
  }
  return names;
}

// Insertions, deletions and replacements of a character that make b of a (Levenshtein 1966).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// Far away, the nearest name is no help, and the text lists them all.
bool is_near(std::size_t distance, std::string_view name) { return distance <= 1 + name.size() / 3; }

// As in TOML: quotes only where a bare name would not do.
std::string show_name(std::string_view name) {
  const auto is_bare = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), is_bare) ? shorten(std::string(name))
                                                                         : shorten(quote(name));
}

}  // namespace

KeySpec& KeySpec::changeable() {
  may_change = true;
  return *this;
}

KeySpec& KeySpec::required() {
  is_required = true;
  return *this;
}

KeySpec& KeySpec::default_is(std::string text) {
  default_text = std::move(text);
  return *this;
}

KeySpec& KeySpec::only_with(std::string other, std::vector<std::string> values) {
  for (std::string& value : values) value = quote(value);
  conditions.push_back({std::move(other), std::move(values)});
  return *this;
}

KeySpec& KeySpec::unless(std::string other) {
  replaced_by = std::move(other);
  return *this;
}

bool KeySpec::has_effect(const Config& config) const {
  const auto value_of = [&](const std::string& path) {
    const auto is_it = [&](const KeySpec& key) { return key.path() == path; };
    return std::find_if(schema().begin(), schema().end(), is_it)->get(config);
  };
  const auto holds = [&](const Condition& condition) {
    return std::find(condition.values.begin(), condition.values.end(), value_of(condition.key)) !=
           condition.values.end();
  };
  if (!replaced_by.empty() && value_of(replaced_by) != "0") return false;
  return conditions.empty() || std::any_of(conditions.begin(), conditions.end(), holds);
}

std::string KeySpec::condition() const {
  std::string text;
  for (const Condition& one : conditions) {
    text += fmt::format("{}{} = {}", text.empty() ? "" : " or ", one.key, join_alternatives(one.values));
  }
  return replaced_by.empty() ? text : fmt::format("{} with {} = 0", text, replaced_by);
}

const std::vector<KeySpec>& schema() {
  static const std::vector<KeySpec> keys = [] {
    std::vector<KeySpec> all;
    add_model_keys(all);
    add_data_keys(all);
    add_optim_keys(all);
    add_train_keys(all);
    return all;
  }();
  return keys;
}

bool is_table(std::string_view name) {
  return std::any_of(schema().begin(), schema().end(), [&](const KeySpec& key) { return key.table == name; });
}

const KeySpec* find_key(std::string_view table, std::string_view name) {
  const auto found = std::find_if(schema().begin(), schema().end(),
                                  [&](const KeySpec& key) { return key.table == table && key.name == name; });
  return found != schema().end() ? &*found : nullptr;
}

std::vector<const KeySpec*> find_keys(std::string_view name) {
  std::vector<const KeySpec*> found;
  for (const KeySpec& key : schema()) {
    if (key.name == name) {
      found.push_back(&key);
    }
  }
  return found;
}

std::string unknown_table_text(std::string_view table) {
  std::vector<std::string> known;
  std::pair<std::size_t, std::string> nearest{std::string::npos, ""};
  for (const std::string& name : table_names()) {
    known.push_back("[" + name + "]");
    nearest = std::min(nearest, {edit_distance(table, name), known.back()});
  }
  return is_near(nearest.first, table)
             ? fmt::format("unknown table [{}], the nearest known table is {}", show_name(table), nearest.second)
             : fmt::format("unknown table [{}], it must be {}", show_name(table), join_alternatives(known));
}

std::string unknown_key_text(std::string_view table, std::string_view name) {
  const std::string shown = table.empty() ? show_name(name) : fmt::format("{} in [{}]", show_name(name), table);
  std::vector<std::string> homes, siblings;
  // Of two names that are equally near, the one in the table at hand is meant.
  std::tuple<std::size_t, bool, std::string> nearest{std::string::npos, true, ""};
  for (const KeySpec& key : schema()) {
    if (key.name == name) {
      homes.push_back("[" + key.table + "]");
    }
    if (key.table == table) {
      siblings.push_back(key.name);
    }
    nearest = std::min(nearest, {edit_distance(name, key.name), key.table != table, key.path()});
  }
  if (!homes.empty()) {
    return fmt::format("key {} belongs to {}", shown, join_alternatives(homes));
  }
  if (is_near(std::get<0>(nearest), name) || siblings.empty()) {
    return fmt::format("unknown key {}, the nearest known key is {}", shown, std::get<2>(nearest));
  }
  return fmt::format("unknown key {}, that table has {}", shown, join_alternatives(siblings));
}

}  // namespace heed::train
