// The numbers of a run: metrics.csv, one row per update, and summary.json at the end.
#pragma once

#include <cstdio>
#include <optional>
#include <string>

#include "train/config.hpp"

namespace heed::train {

struct MetricsRow {
  int64_t step = 0;    // updates done
  int64_t tokens = 0;  // targets seen since the start
  double train_loss = 0;
  std::optional<double> val_loss = {};  // only where an evaluation followed this update
  double learning_rate = 0, grad_norm = 0, tokens_per_s = 0, seconds = 0;
};

struct Summary {
  int64_t steps = 0, parameters = 0;
  std::optional<double> train_loss = {}, val_loss = {}, best_val_loss = {}, test_loss = {}, entropy = {}, excess = {};
  double tokens_per_s = 0, seconds = 0;
  int64_t peak_memory_bytes = 0;
};

// The folder of a run.
class RunFolder {
 public:
  // A new run: what is there already is moved aside to "<run_dir>.1", ".2", …, nothing is lost. A run that goes on
  // after `resumed_step` updates keeps its folder, and of metrics.csv the rows up to there.
  // Throws ConfigError naming train.run_dir where the folder cannot be written.
  explicit RunFolder(const Config& config, std::optional<int64_t> resumed_step = {});
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  // Where an earlier run went, empty if there was none.
  const std::string& moved_to() const { return moved_to_; }
  // Throw CheckpointError where the row cannot be written: a full disk in the middle of a run.
  void write(const MetricsRow& row);
  void flush();
  void write(const Summary& summary) const;

 private:
  [[noreturn]] void fail_to_record() const;

  std::string path_, moved_to_;
  std::FILE* metrics_ = nullptr;
};

}  // namespace heed::train
