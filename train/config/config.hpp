// The configuration of a run: a TOML file with the key `seed` and the tables [model], [data], [optim] and [train],
// parsed strictly.
//
// Each key is defined once, in the table of train/config/config_schema.cpp; `config_reference()` prints all keys and
// their allowed values. A value is set by `table.key=value` on the command line, else by the file, else by default. A
// key that is unknown, in the wrong table, given twice, of the wrong type, out of range, or without effect in
// combination with the other values is an error; it is never ignored. Every function here throws ConfigError: one line
// with the place (file:line:column, the argument, or only the file), the key, the value that was found and the allowed
// values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/core/dtype.hpp"
#include "data/text_dataset.hpp"
#include "nn/gpt_config.hpp"

namespace heed::train {

enum class DataSource {
  ngram,
  skip,
  markov_in_context,
  repeat,
  hidden_markov,
  dyck,
  modular_addition,
  addition,
  text,
  tokens
};
enum class SequencePrefix { stationary, uniform };
enum class OptimizerKind { adamw, sgd, muon };
enum class MuonScale { match_rms_adamw, original };
enum class ScheduleKind { cosine, linear, constant, wsd };
enum class DecayKind { one_minus_sqrt, linear, cosine };
enum class DeviceChoice { automatic, cpu, cuda };
enum class FinalEval { full, subset, none };
enum class ExistingRun { move, refuse };

struct DataConfig {
  DataSource source = DataSource::ngram;
  int64_t vocab_size = 32;
  int64_t order = 3;             // ngram: each token depends on the order - 1 tokens before it
  std::vector<int64_t> offsets;  // skip: each token depends on the tokens at these distances before it
  SequencePrefix prefix = SequencePrefix::stationary;  // ngram, skip: the first tokens of a sequence
  std::vector<double> alpha;  // Dirichlet concentrations: ngram and skip, of each level, the context-free one first
  int64_t min_period = 8;     // repeat: tokens of the shortest and the longest block
  int64_t max_period = 16;
  int64_t num_states = 4;    // hidden_markov
  int64_t num_brackets = 4;  // dyck: types of brackets
  int64_t max_depth = 8;     // dyck: most open brackets
  int64_t modulus = 59;      // modular_addition
  int64_t digits = 3;        // addition: digits of each summand
  uint32_t seed = 1;         // of the order in which sequences are drawn
  uint32_t source_seed = 1;  // of what the data is: the probabilities of a synthetic dataset, the split by lines
  std::string path;          // text, tokens
  data::TokenizerKind tokenizer = data::TokenizerKind::character;
  std::string tokenizer_file;  // file
  data::TextSplit split = data::TextSplit::position;
  double val_fraction = 0.1;
  double test_fraction = 0.0;
  int64_t val_lines = 0;  // split by lines: number of lines; 0: val_fraction decides
  int64_t test_lines = 0;
  std::string document_separator;  // text, tokens: the text of the token that ends a document; empty: none

  bool is_synthetic() const { return source != DataSource::text && source != DataSource::tokens; }
  bool is_markov_chain() const { return source == DataSource::ngram || source == DataSource::skip; }
  // Elements of alpha. ngram, skip: distributions in the hierarchy, one without context, then one for each token of
  // context. 0 if alpha has no effect.
  int64_t num_alphas() const;
  // Vocabulary size of a synthetic dataset.
  int64_t synthetic_vocab_size() const;
  // The only model.seq_len that a synthetic dataset can have; 0 if it can have any.
  int64_t required_seq_len() const;
};

struct OptimConfig {
  OptimizerKind optimizer = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double min_learning_rate = 0.0;
  ScheduleKind schedule = ScheduleKind::cosine;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // wsd; filled in unless given
  DecayKind decay = DecayKind::one_minus_sqrt;
  double weight_decay = 0.1;
  double momentum = 0.0;  // sgd, muon; filled in for muon unless given
  MuonScale muon_scale = MuonScale::match_rms_adamw;
  double adamw_learning_rate = 0.0;  // muon: of the parameters that AdamW updates; filled in unless given
  // Factors on the learning rate.
  double embedding_lr_scale = 1.0;
  double head_lr_scale = 1.0;
  double vector_lr_scale = 1.0;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double clip_norm = 1.0;  // 0: off
  double ema_decay = 0.0;  // 0: no average
};

struct TrainConfig {
  int64_t steps = 1000;
  int64_t stop_after = 0;        // 0: run all steps
  int64_t batch_size = 16;       // sequences per step, over all ranks and micro-batches
  int64_t micro_batch_size = 0;  // 0: all sequences of the rank
  uint32_t seed = 1;
  DeviceChoice device = DeviceChoice::automatic;
  bool cuda_graph = true;
  bool tf32 = false;
  DType precision = DType::f32;  // or bf16, f64
  bool recompute = false;
  bool detect_anomaly = false;
  int64_t eval_interval = 100;
  int64_t eval_batches = 0;                // 0: the full split
  FinalEval final_eval = FinalEval::full;  // subset: the first eval_batches batches
  int64_t log_interval = 10;
  bool log_layers = false;
  int64_t save_interval = 0;  // 0: only at the end
  int64_t keep_checkpoints = 1;
  std::string run_dir;
  std::string init_from;                         // a checkpoint or model folder; empty: random initial weights
  ExistingRun existing_run = ExistingRun::move;  // what to do with an earlier run in run_dir
  bool tensorboard = false;
  bool plot = true;  // draw plot.svg at the end

  bool shard_optimizer = false;
  double comm_timeout_s = 600;
  int64_t ranks = 1;  // number of ranks that split the batch; not a key: share_batch() sets it

  int64_t rows_per_rank() const { return batch_size / ranks; }
  int64_t rows_per_micro_batch() const { return micro_batch_size == 0 ? rows_per_rank() : micro_batch_size; }
};

enum class OriginKind { by_default, file, command_line };

// Where a value was set.
struct Origin {
  OriginKind kind = OriginKind::by_default;
  int64_t line = 0;   // in the file, else 0
  std::string place;  // prefix of errors about the value: "tiny.toml:3:1" or `argument "d_model=64"`
};

// The keys before the first table.
struct GlobalConfig {
  uint32_t seed = 1;  // the default of model.seed, data.seed and train.seed
};

struct Config {
  GlobalConfig global;
  nn::GptConfig model;
  DataConfig data;
  OptimConfig optim;
  TrainConfig train;

  std::string file_name;                             // as given by the caller
  std::map<std::string, Origin, std::less<>> given;  // by KeySpec::path(); all other keys have their defaults
  std::vector<std::string> notices;  // one line each: values that were lowered to fit others, or that have no effect

  Origin origin(std::string_view key) const;
};

// Reads the file, then the overrides: `table.key=value`, or `key=value` if only one table has the key (`seed=value` is
// the key before the tables). Values are written as in TOML, but strings need no quotes. Values that depend on others
// are filled in: the seeds of the tables, num_kv_heads, d_ff, alpha, run_dir ("runs/" and the name of the file without
// its extension, in the current directory), data.vocab_size for bpe, and model.vocab_size for synthetic datasets.
// Relative paths start at the current directory; a leading ~ is the home directory. Keys of the file that lose their
// effect through an override are reset to their defaults. If train.steps is an override, warmup_steps and stop_after of
// the file are lowered to it, with a notice.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

// The same for text in memory; file_name is used in errors and in run_dir.
Config parse_config(const std::string& text, const std::string& file_name,
                    const std::vector<std::string>& overrides = {});

// The text of a file of at most 1 MiB. kind: what the file is, for errors: "config file". Throws ConfigError.
std::string read_small_file(const std::string& path, const std::string& kind);

// The functions below need a Config that one of the two above returned.

// Splits the batch among the ranks. Throws ConfigError unless batch_size is a multiple of ranks or, if micro_batch_size
// is set, of ranks * micro_batch_size.
void share_batch(Config& config, int64_t ranks);

// All keys that have an effect, as TOML that parses to exactly the same values. A default that is derived from other
// keys (num_kv_heads from num_heads) is written as a comment, so that it is derived again in a config based on this
// one. A default train.seed without dropout is a comment, too. run_dir is always written, so that --resume with this
// file finds the run.
std::string config_to_toml(const Config& config);

// All keys with their values and origins, in columns, then the notices.
std::string describe_config(const Config& config);

// All keys with their allowed values, defaults and meanings.
std::string config_reference();
// The same as a page in Markdown, one table for each table of the config: docs/config.md.
std::string config_markdown();

// Whether train.seed has an effect: only dropout masks are drawn with it.
bool uses_train_seed(const Config& config);

// The last step of parse_config(): fills in values that depend on others, and checks the values against each other.
// Each must already be within its own range. Adds to Config::notices. Throws ConfigError at the first rule that is
// violated.
void resolve_config(Config& config);

}  // namespace heed::train
