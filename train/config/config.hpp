// The configuration of a run: a TOML file with the tables [model], [data], [optim] and [train], read strictly.
//
// Each key exists once, in the table of train/config/config_schema.cpp; `config_reference()` prints them all with what
// they take. A value comes from `table.key=value` on the command line, else from the file, else it is the default. A
// key that is unknown, in the wrong table, given twice, of the wrong type, out of range, or without effect beside the
// other values is an error, never ignored. Every function here throws ConfigError: one line that begins with
// file:line:column or with the argument, and names the key, what was found and what is allowed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/core/dtype.hpp"
#include "data/text_source.hpp"
#include "nn/gpt_config.hpp"

namespace heed::train {

enum class DataSource { ngram, skip, text, tokens };
enum class OptimizerKind { adamw, sgd };
enum class ScheduleKind { cosine, linear, constant };
enum class DeviceChoice { automatic, cpu, cuda };
enum class FinalEval { full, subset, none };
enum class ExistingRun { move, refuse };

struct DataConfig {
  DataSource source = DataSource::ngram;
  int64_t vocab_size = 32;
  int64_t order = 3;             // ngram: a token depends on the order - 1 before it
  std::vector<int64_t> offsets;  // skip: a token depends on the tokens this far before it
  std::vector<double> alpha;     // Dirichlet concentration of each level, the context-free one first
  uint32_t seed = 1;
  std::string path;  // text, tokens
  data::TokenizerKind tokenizer = data::TokenizerKind::character;
  data::TextSplit split = data::TextSplit::position;
  double val_fraction = 0.1;
  double test_fraction = 0.0;
  int64_t val_lines = 0;  // lines: that many instead of the fraction, 0: by the fraction
  int64_t test_lines = 0;

  bool is_synthetic() const { return source == DataSource::ngram || source == DataSource::skip; }
  // Distributions in the hierarchy of the source: one without context, then one more for each token of context.
  int64_t levels() const { return source == DataSource::ngram ? order : static_cast<int64_t>(offsets.size()) + 1; }
};

struct OptimConfig {
  OptimizerKind optimizer = OptimizerKind::adamw;
  double learning_rate = 1e-3;
  double min_learning_rate = 0.0;
  ScheduleKind schedule = ScheduleKind::cosine;
  int64_t warmup_steps = 0;
  double weight_decay = 0.1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double clip_norm = 1.0;  // 0: off
};

struct TrainConfig {
  int64_t steps = 1000;
  int64_t stop_after = 0;        // 0: steps
  int64_t batch_size = 16;       // sequences per step, over all ranks and micro-batches
  int64_t micro_batch_size = 0;  // 0: all rows
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
  int64_t save_interval = 0;  // 0: only at the end
  int64_t keep_checkpoints = 1;
  std::string run_dir;
  ExistingRun existing_run = ExistingRun::move;  // of an earlier run in run_dir

  bool shard_optimizer = false;
  double comm_timeout_s = 600;
  int64_t ranks = 1;  // that share a batch: no key, the launcher's (share_batch())

  int64_t rows_per_rank() const { return batch_size / ranks; }
  int64_t rows_per_micro_batch() const { return micro_batch_size == 0 ? rows_per_rank() : micro_batch_size; }
};

enum class OriginKind { by_default, file, command_line };

// Where a value was given.
struct Origin {
  OriginKind kind = OriginKind::by_default;
  int64_t line = 0;   // in the file, else 0
  std::string place;  // begins an error about the value: "tiny.toml:3:1" or `argument "d_model=64"`
};

struct Config {
  nn::GptConfig model;
  DataConfig data;
  OptimConfig optim;
  TrainConfig train;

  std::string file_name;                             // as it was given
  std::map<std::string, Origin, std::less<>> given;  // by "table.key"; what is not here has its default
  std::vector<std::string> notices;  // one line each: values that were lowered to fit others, or that have no effect

  Origin origin(std::string_view key) const;
};

// Reads the file, then the overrides: `table.key=value`, or `key=value` where only one table has the key. A value is
// written as in TOML; strings need no quotes there. All that depends on other values is filled in: num_kv_heads, d_ff,
// alpha, run_dir ("runs/" and the file's name without ending, in the current folder) and model.vocab_size.
// A path that is not absolute counts from the current folder; a leading ~ is the home folder. Where train.steps comes
// from the command line, warmup_steps and stop_after of the file are lowered to it, with a notice.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

// The same from text that is already in memory; file_name stands for it in errors and in run_dir.
Config parse_config(const std::string& text, const std::string& file_name,
                    const std::vector<std::string>& overrides = {});

// The functions below take a Config that one of the two above returned.

// Shares the batch among ranks. Throws ConfigError unless it is a multiple of ranks times micro_batch_size.
void share_batch(Config& config, int64_t ranks);

// Every key that has an effect, as TOML that reads back to exactly the same values. A default that follows from other
// keys (num_kv_heads from num_heads) is a comment, so that it follows them, too, in a config made from this one; only
// run_dir is written in any case, so that --resume with this file finds the run.
std::string config_to_toml(const Config& config);

// Every key with its value and origin, in columns.
std::string describe_config(const Config& config);

// Every key with what it takes, its default and its meaning.
std::string config_reference();

}  // namespace heed::train
