#include "train/config/config_schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "data/synthetic/addition_dataset.hpp"
#include "data/synthetic/dirichlet.hpp"
#include "data/synthetic/dyck_dataset.hpp"
#include "data/synthetic/hidden_markov_dataset.hpp"
#include "data/synthetic/markov_chain.hpp"
#include "data/synthetic/modular_addition_dataset.hpp"
#include "data/synthetic/repeat_dataset.hpp"
#include "train/config/config_value.hpp"

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

// Upper limits are far above what runs, and small enough that no count of elements or bytes overflows int64. Positive
// lower limits do not round to 0 in f32; for clip_norm, this holds for the factor on the gradients, clip_norm divided
// by a norm of up to 1e38.

void add_global_keys(std::vector<KeySpec>& keys) {
  Table<GlobalConfig>(keys, "", &Config::global)
      .add("seed", &GlobalConfig::seed, seed_number(),
           "random seed of the whole run: the default of model.seed, data.seed and train.seed");
}

void add_model_keys(std::vector<KeySpec>& keys) {
  using nn::Activation, nn::GptConfig, nn::NormPosition, nn::Position;
  Table<GptConfig> model(keys, "model", &Config::model);
  model.add("num_layers", &GptConfig::num_layers, integer(1, 1024), "number of Transformer blocks");
  model.add("d_model", &GptConfig::d_model, integer(1, 65536), "width of the residual stream");
  model.add("num_heads", &GptConfig::num_heads, integer(1, 65536), "attention heads; must divide d_model");
  model
      .add("num_kv_heads", &GptConfig::num_kv_heads, integer(1, 65536),
           "key/value heads; must divide num_heads (fewer than num_heads: GQA, 1: MQA)")
      .default_is("num_heads");
  model.add("d_ff", &GptConfig::d_ff, integer(1, 1'048'576), "hidden width of the MLP").default_is("4 * d_model");
  model.add("seq_len", &GptConfig::seq_len, integer(1, 1'048'576), "tokens per sequence");
  model.add("norm_position", &GptConfig::norm_position,
            choice<NormPosition>({{"pre", NormPosition::pre}, {"post", NormPosition::post}}),
            "\"pre\": LayerNorm before each sublayer (GPT-2); \"post\": after the residual addition (Vaswani et al.)");
  model.add("norm_eps", &GptConfig::norm_eps, number(1e-12, 1), "epsilon that LayerNorm adds to the variance");
  model.add("activation", &GptConfig::activation,
            choice<Activation>({{"gelu", Activation::gelu}, {"relu", Activation::relu}}),
            "MLP activation; \"gelu\" is the tanh approximation");
  model.add("position", &GptConfig::position,
            choice<Position>(
                {{"learned", Position::learned}, {"sinusoidal", Position::sinusoidal}, {"none", Position::none}}),
            "position embedding, added to the token embedding");
  // p = 1, or a p that rounds to 1, would drop every element.
  model.add("dropout", &GptConfig::dropout, number(0, 0.99), "dropout probability on embeddings and residual branches");
  model.add("attention_dropout", &GptConfig::attention_dropout, number(0, 0.99),
            "dropout probability of the attention probabilities");
  model.add("bias", &GptConfig::bias, boolean(), "linear layers and LayerNorm have a bias");
  model.add("tie_embeddings", &GptConfig::tie_embeddings, boolean(),
            "tie the output projection (lm_head) to the token embedding");
  model.add("init_std", &GptConfig::init_std, number(1e-6, 10), "standard deviation of the initial weights");
  model.add("seed", &GptConfig::seed, seed_number(), "random seed of weight initialisation").default_is("seed");
}

void add_text_keys(Table<DataConfig>& source) {
  using data::TextSplit, data::TokenizerKind;
  source
      .add("tokenizer", &DataConfig::tokenizer,
           choice<TokenizerKind>(
               {{"char", TokenizerKind::character}, {"byte", TokenizerKind::byte}, {"bpe", TokenizerKind::bpe}}),
           "\"char\": one token for each character; \"byte\": for each byte; \"bpe\": byte-pair encoding trained on "
           "the text")
      .only_with("data.source", {"text"});
  source
      .add("split", &DataConfig::split,
           choice<TextSplit>({{"position", TextSplit::position}, {"lines", TextSplit::lines}}),
           "\"position\": consecutive parts of the text; \"lines\": each line is one sequence")
      .only_with("data.source", {"text"});
  source
      .add("val_fraction", &DataConfig::val_fraction, number(0, 0.99),
           "fraction of the text, or of all pairs (a, b), for validation; 0: no validation, so no best.h5")
      .only_with("data.source", {"text", "modular_addition", "addition"})
      .unless("data.val_lines");
  source.add("test_fraction", &DataConfig::test_fraction, number(0, 0.99), "fraction of the text for the test split")
      .only_with("data.source", {"text"})
      .unless("data.test_lines");
  source
      .add("val_lines", &DataConfig::val_lines, integer(0, 1'000'000'000),
           "number of lines for validation; 0: val_fraction decides")
      .only_with("data.split", {"lines"});
  source
      .add("test_lines", &DataConfig::test_lines, integer(0, 1'000'000'000),
           "number of lines for the test split; 0: test_fraction decides")
      .only_with("data.split", {"lines"});
}

// Keys of one synthetic dataset each.
void add_task_keys(Table<DataConfig>& source) {
  using data::AdditionDataset, data::DyckDataset, data::RepeatDataset;
  source
      .add("min_period", &DataConfig::min_period, integer(1, RepeatDataset::kMaxPeriod),
           "tokens of the shortest block that is repeated")
      .only_with("data.source", {"repeat"});
  source
      .add("max_period", &DataConfig::max_period, integer(1, RepeatDataset::kMaxPeriod),
           "tokens of the longest block that is repeated")
      .only_with("data.source", {"repeat"});
  source
      .add("num_states", &DataConfig::num_states, integer(1, data::HiddenMarkovDataset::kMaxStates),
           "hidden states of the Markov chain")
      .only_with("data.source", {"hidden_markov"});
  source.add("num_brackets", &DataConfig::num_brackets, integer(1, DyckDataset::kMaxBrackets), "types of brackets")
      .only_with("data.source", {"dyck"});
  source.add("max_depth", &DataConfig::max_depth, integer(1, DyckDataset::kMaxDepth), "most brackets open at once")
      .only_with("data.source", {"dyck"});
  source
      .add("modulus", &DataConfig::modulus, integer(2, data::ModularAdditionDataset::kMaxModulus),
           "p in a + b = c (mod p)")
      .only_with("data.source", {"modular_addition"});
  source
      .add("digits", &DataConfig::digits, integer(1, AdditionDataset::kMaxDigits),
           "decimal digits of a and b in a + b = c")
      .only_with("data.source", {"addition"});
}

void add_data_keys(std::vector<KeySpec>& keys) {
  Table<DataConfig> source(keys, "data", &Config::data);
  source
      .add("source", &DataConfig::source,
           choice<DataSource>({{"ngram", DataSource::ngram},
                               {"skip", DataSource::skip},
                               {"markov_in_context", DataSource::markov_in_context},
                               {"repeat", DataSource::repeat},
                               {"hidden_markov", DataSource::hidden_markov},
                               {"dyck", DataSource::dyck},
                               {"modular_addition", DataSource::modular_addition},
                               {"addition", DataSource::addition},
                               {"text", DataSource::text},
                               {"tokens", DataSource::tokens}}),
           "the dataset: \"text\" is a text file, \"tokens\" a token file made by heed data prepare; the others are "
           "synthetic: Markov chains (\"ngram\", \"skip\", \"markov_in_context\" with one for each sequence, "
           "\"hidden_markov\"), repeated random tokens (\"repeat\"), nested brackets (\"dyck\"), a + b = c "
           "(\"modular_addition\", \"addition\")")
      .required();
  source.add("vocab_size", &DataConfig::vocab_size, integer(2, 65536), "vocabulary size")
      .default_is("32, for bpe 512")
      .only_with("data.source", {"ngram", "skip", "markov_in_context", "repeat", "hidden_markov"})
      .only_with("data.tokenizer", {"bpe"});
  source
      .add("order", &DataConfig::order, integer(1, data::MarkovChain::kMaxMemory + 1),
           "each token depends on the order - 1 tokens before it")
      .only_with("data.source", {"ngram"});
  source
      .add("offsets", &DataConfig::offsets, list(integer(1, 1'048'576)),
           "each token depends on the tokens this many places before it; all different")
      .required()
      .only_with("data.source", {"skip"});
  source
      .add("prefix", &DataConfig::prefix,
           choice<SequencePrefix>({{"stationary", SequencePrefix::stationary}, {"uniform", SequencePrefix::uniform}}),
           "how a sequence begins: \"stationary\": from the stationary distribution; \"uniform\": its first "
           "order - 1 (skip: max(offsets)) tokens are uniform random, which allows far offsets")
      .only_with("data.source", {"ngram", "skip"});
  source
      .add("alpha", &DataConfig::alpha, list(number(data::kMinAlpha, data::kMaxAlpha)),
           "Dirichlet concentrations: of the unigram distribution (its mean is uniform), then one for each token of "
           "context (the mean is the distribution for the shorter context); markov_in_context: of the rows; "
           "hidden_markov: of transitions and emissions; smaller is more peaked")
      .default_is("[32, 8, 4, 4, …], for markov_in_context [1], for hidden_markov [1, 1]")
      .only_with("data.source", {"ngram", "skip", "markov_in_context", "hidden_markov"});
  add_task_keys(source);
  source.add("seed", &DataConfig::seed, seed_number(), "random seed of the sampled sequences").default_is("seed");
  source
      .add("source_seed", &DataConfig::source_seed, seed_number(),
           "random seed of the dataset itself: a synthetic dataset's probabilities, or which pairs or lines are for "
           "validation")
      .default_is("data.seed if that is set, else 1")
      .only_with("data.source", {"ngram", "skip", "hidden_markov", "modular_addition", "addition"})
      .only_with("data.split", {"lines"});
  source
      .add("path", &DataConfig::path, path_name(),
           "text file or token file; a relative path counts from the current folder, ~ is the home folder")
      .required()
      .changeable()
      .only_with("data.source", {"text", "tokens"});
  add_text_keys(source);
}

void add_optim_keys(std::vector<KeySpec>& keys) {
  Table<OptimConfig> optim(keys, "optim", &Config::optim);
  optim.add("optimizer", &OptimConfig::optimizer,
            choice<OptimizerKind>({{"adamw", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}}), "the optimizer");
  optim.add("learning_rate", &OptimConfig::learning_rate, number(1e-12, 1e30),
            "peak learning rate, reached at the end of warm-up");
  optim.add("min_learning_rate", &OptimConfig::min_learning_rate, number(0, 1e30), "final learning rate of the decay")
      .only_with("optim.schedule", {"cosine", "linear"});
  optim.add(
      "schedule", &OptimConfig::schedule,
      choice<ScheduleKind>(
          {{"cosine", ScheduleKind::cosine}, {"linear", ScheduleKind::linear}, {"constant", ScheduleKind::constant}}),
      "decay of the learning rate after warm-up");
  optim.add("warmup_steps", &OptimConfig::warmup_steps, integer(0, 1'000'000'000),
            "linear warm-up steps (at most train.steps)");
  optim.add("weight_decay", &OptimConfig::weight_decay, number(0, 1000),
            "decoupled weight decay, on matrices and embeddings only");
  optim
      .add("momentum", &OptimConfig::momentum, number(0, 0.999999),
           "momentum of SGD, as in PyTorch; 0: off, without optimizer state")
      .only_with("optim.optimizer", {"sgd"});
  // 1 - beta must not round to 0 in f32.
  optim
      .add("beta1", &OptimConfig::beta1, number(0, 0.999999),
           "decay rate of the first moment, the running mean of the gradient")
      .only_with("optim.optimizer", {"adamw"});
  optim
      .add("beta2", &OptimConfig::beta2, number(0, 0.999999),
           "decay rate of the second moment, the running mean of the squared gradient")
      .only_with("optim.optimizer", {"adamw"});
  optim.add("eps", &OptimConfig::eps, number(1e-20, 1), "epsilon in the denominator of AdamW")
      .only_with("optim.optimizer", {"adamw"});
  optim.add("clip_norm", &OptimConfig::clip_norm, number_or_zero(1e-6, 1e6),
            "clip the global gradient norm to this; 0: off");
}

void add_train_keys(std::vector<KeySpec>& keys) {
  Table<TrainConfig> train(keys, "train", &Config::train);
  train.add("steps", &TrainConfig::steps, integer(1, 1'000'000'000), "number of training steps").changeable();
  train
      .add("stop_after", &TrainConfig::stop_after, integer(0, 1'000'000'000),
           "stop after this many steps; the learning rate schedule still spans train.steps; 0: run all steps")
      .changeable();
  train.add("batch_size", &TrainConfig::batch_size, integer(1, 1'048'576),
            "sequences per step, over all ranks and micro-batches");
  train
      .add("micro_batch_size", &TrainConfig::micro_batch_size, integer(0, 1'048'576),
           "sequences per forward/backward pass of a rank (gradient accumulation); must divide the batch of a rank; 0: "
           "all of it")
      .changeable();
  train
      .add("seed", &TrainConfig::seed, seed_number(),
           "random seed of the dropout masks; without dropout it has no effect")
      .default_is("seed");
  train
      .add("device", &TrainConfig::device,
           choice<DeviceChoice>(
               {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}}),
           "where the model runs; \"auto\": on a CUDA device if there is one, else on the CPU")
      .changeable();
  train
      .add("cuda_graph", &TrainConfig::cuda_graph, boolean(),
           "on CUDA: capture a step as a CUDA graph and replay it, instead of launching each operation")
      .only_with("train.device", {"auto", "cuda"})
      .changeable();
  train
      .add("tf32", &TrainConfig::tf32, boolean(),
           "on CUDA: f32 matmuls in TF32 on tensor cores, with 10 mantissa bits in their inputs")
      .only_with("train.device", {"auto", "cuda"});
  train.add(
      "precision", &TrainConfig::precision,
      choice<DType>({{"f32", DType::f32}, {"bf16", DType::bf16}, {"f64", DType::f64}}),
      "dtype of the computation; \"bf16\" is mixed precision: activations and matmuls in bf16; master weights, their "
      "gradients, optimizer state and reductions in f32");
  train
      .add("recompute", &TrainConfig::recompute, boolean(),
           "activation checkpointing: recompute each block in the backward pass to save memory")
      .changeable();
  train
      .add("detect_anomaly", &TrainConfig::detect_anomaly, boolean(),
           "name the operation that made the first NaN or infinity")
      .changeable();
  train
      .add("shard_optimizer", &TrainConfig::shard_optimizer, boolean(),
           "with several ranks: each rank keeps only its shard of the optimizer state and of bf16's f32 weights "
           "(ZeRO-1)")
      .changeable();
  train
      .add("comm_timeout_s", &TrainConfig::comm_timeout_s, number(0.1, 1e6),
           "with several ranks: longest wait for another rank, in seconds, before the run ends")
      .changeable();
  train.add("eval_interval", &TrainConfig::eval_interval, integer(1, 1'000'000'000), "steps between evaluations")
      .changeable();
  train
      .add("eval_batches", &TrainConfig::eval_batches, integer(0, 1'000'000'000),
           "batches per evaluation; 0: the full split")
      .changeable();
  train
      .add("final_eval", &TrainConfig::final_eval,
           choice<FinalEval>({{"full", FinalEval::full}, {"subset", FinalEval::subset}, {"none", FinalEval::none}}),
           "evaluation at the end of the run: the full splits, the first eval_batches batches, or none")
      .changeable();
  train.add("log_interval", &TrainConfig::log_interval, integer(1, 1'000'000'000), "steps between log lines")
      .changeable();
  train
      .add(
          "log_layers", &TrainConfig::log_layers, boolean(),
          "also write layers.csv every log_interval steps: norms of each layer's weights, gradients and weight updates")
      .changeable();
  train
      .add("run_dir", &TrainConfig::run_dir, path_name(),
           "run directory, ~ is the home folder; existing_run decides what happens to an earlier run there")
      .default_is("runs/ and the name of the config file")
      .changeable();
  train
      .add("existing_run", &TrainConfig::existing_run,
           choice<ExistingRun>({{"move", ExistingRun::move}, {"refuse", ExistingRun::refuse}}),
           "what to do with an earlier run in run_dir: move it aside to run_dir.1, .2, …, or refuse to start")
      .changeable();
  train.add("plot", &TrainConfig::plot, boolean(), "draw plot.svg in run_dir at the end of the run, with matplotlib")
      .changeable();
  train
      .add("save_interval", &TrainConfig::save_interval, integer(0, 1'000'000'000),
           "steps between checkpoints; 0: only at the end")
      .changeable();
  train
      .add("keep_checkpoints", &TrainConfig::keep_checkpoints, integer(0, 1'000'000),
           "older checkpoints to keep besides last and best")
      .changeable();
  train
      .add("tensorboard", &TrainConfig::tensorboard, boolean(),
           "also write the metrics as TensorBoard event files, to the folder tensorboard in run_dir")
      .changeable();
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

std::string KeySpec::default_or_text() const { return default_text.empty() ? get(Config{}) : default_text; }

const std::vector<KeySpec>& schema() {
  static const std::vector<KeySpec> keys = [] {
    std::vector<KeySpec> all;
    add_global_keys(all);
    add_model_keys(all);
    add_data_keys(all);
    add_optim_keys(all);
    add_train_keys(all);
    return all;
  }();
  return keys;
}

bool is_table(std::string_view name) {
  return !name.empty() &&
         std::any_of(schema().begin(), schema().end(), [&](const KeySpec& key) { return key.table == name; });
}

const KeySpec* find_key(std::string_view table, std::string_view name) {
  const auto found = std::find_if(schema().begin(), schema().end(),
                                  [&](const KeySpec& key) { return key.table == table && key.name == name; });
  return found != schema().end() ? &*found : nullptr;
}

std::vector<const KeySpec*> find_keys(std::string_view name) {
  if (const KeySpec* global = find_key("", name)) return {global};
  std::vector<const KeySpec*> found;
  for (const KeySpec& key : schema()) {
    if (key.name == name) {
      found.push_back(&key);
    }
  }
  return found;
}

}  // namespace heed::train
