// The numbers of a run: metrics.csv, one row per update, and summary.json at the end.
#pragma once

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/config.hpp"
#include "train/run_lock.hpp"

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
  // How long an update waits for other ranks, on the CPU: the mean of the ranks. Empty for one rank.
  std::optional<double> waited_s_per_update = {};
};

// The folder of a run. Where train.run_dir is a symbolic link, the folder that it leads to.
class RunFolder {
 public:
  // Takes the lock (train/run_lock.hpp). For a new run the folder is made, and an earlier run in it is moved aside to
  // "<folder>.1", ".2", …, nothing is lost; a link to it stays and leads to the new one. A run that goes on must be
  // there. Throws ConfigError naming train.run_dir where the folder is locked or cannot be written, CheckpointError
  // where there is nothing to go on with.
  RunFolder(const Config& config, bool resume);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Writes config.toml and the header of metrics.csv. A run that goes on after `resumed_step` updates keeps the rows up
  // to there; CheckpointError where metrics.csv is there and cannot be read or is something else. One that is missing
  // begins anew, with a notice.
  void begin(std::optional<int64_t> resumed_step);

  const std::string& path() const { return path_; }  // as it was given
  // To be shown: where an earlier run went, which rows are missing.
  const std::vector<std::string>& notices() const { return notices_; }
  // Throw CheckpointError where the row cannot be written: a full disk in the middle of a run.
  void write(const MetricsRow& row);
  void flush();
  // Returns when the rows are on the disk: a checkpoint must not know more updates than metrics.csv.
  void sync();
  void write(const Summary& summary) const;

 private:
  [[noreturn]] void fail_to_record() const;

  std::string path_, config_;
  std::filesystem::path folder_;
  std::optional<RunLock> lock_;
  std::vector<std::string> notices_;
  std::FILE* metrics_ = nullptr;
};

}  // namespace heed::train
