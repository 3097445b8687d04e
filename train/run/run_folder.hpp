// The folder of a run: who may write in it, and its files other than checkpoints.
//
// heed never replaces, renames or removes what it did not make (train/run/run_mark.hpp says what it made):
//   no such folder           it is made, and marked
//   a folder without mark    used and marked if nothing in it would be replaced, otherwise refused
//   a run of heed            moved as a whole to "<folder>.1", ".2", …, if heed made the folder and all that is in it,
//                            and the current folder, the config file and data.path are not in it; otherwise refused,
//                            as by train.existing_run = "refuse"
// A run that is resumed continues in place; a copy without the mark is accepted if its files show that heed wrote them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/config/config.hpp"
#include "train/run/metrics.hpp"
#include "train/run/run_lock.hpp"
#include "train/run/summary.hpp"

namespace heed::train {

// Makes train.run_dir and data.path absolute, symbolic links in run_dir followed: nothing of a run depends on the
// current folder or on a link after its start. Throws ConfigError where run_dir cannot be resolved.
void fix_paths(Config& config);

class RunFolder {
 public:
  // config: after fix_paths(). Takes the lock (train/run/run_lock.hpp), and moves an earlier run aside. Throws
  // ConfigError naming train.run_dir where the folder is refused, locked or cannot be written, CheckpointError where
  // there is nothing to resume.
  RunFolder(const Config& config, bool resume);

  // Writes config.toml, metrics.csv and a summary.json of the status "running". A run that continues after
  // `resumed_step` steps keeps the rows up to there. CheckpointError where metrics.csv cannot be read or is something
  // else; one that is missing starts with the next step, with a notice.
  void begin(std::optional<int64_t> resumed_step);

  const std::filesystem::path& path() const { return path_; }
  MetricsFile& metrics() { return *metrics_; }
  void write(const Summary& summary) const;
  // To be shown: where an earlier run went, which rows are missing. Each is given once.
  std::vector<std::string> take_notices();

 private:
  void start_new();
  void start_resumed();
  void move_aside();
  void require_own_files() const;
  [[noreturn]] void refuse(const std::string& reason) const;

  Config config_;
  std::filesystem::path path_;
  std::optional<RunLock> lock_;
  std::optional<MetricsFile> metrics_;
  std::vector<std::string> notices_;
};

}  // namespace heed::train
