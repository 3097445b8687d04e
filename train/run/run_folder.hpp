// The run folder: which process may write to it, and its files other than checkpoints.
//
// heed never replaces, renames or removes what it did not create (train/run/run_mark.hpp defines what it created):
//   no such folder           it is created and marked
//   a folder without mark    used and marked if nothing in it would be replaced, otherwise refused
//   a run of heed            moved as a whole to "<folder>.1", ".2", …, if heed created the folder and all in it,
//                            and the current folder, the config file and data.path are not in it; otherwise refused,
//                            as always with train.existing_run = "refuse"
// A resumed run continues in place; a copy without the mark is accepted if its files show that heed wrote them.
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

// Makes train.run_dir and data.path absolute, and resolves symbolic links in run_dir: once started, a run depends
// neither on the current folder nor on a link. Throws ConfigError if run_dir cannot be resolved.
void fix_paths(Config& config);

class RunFolder {
 public:
  // config: already processed by fix_paths(). Acquires the lock (train/run/run_lock.hpp), and moves an earlier run
  // aside. Throws ConfigError, which names train.run_dir, if the folder is refused, locked or cannot be written,
  // CheckpointError if there is no checkpoint to resume from.
  RunFolder(const Config& config, bool resume);

  // Writes config.toml, metrics.csv and a summary.json with the status "running". A run that resumes after
  // `resumed_step` steps keeps the rows up to that step. Throws CheckpointError if metrics.csv cannot be read or is
  // something else; a missing one is started with the next step, with a notice.
  void begin(std::optional<int64_t> resumed_step);

  const std::filesystem::path& path() const { return path_; }
  MetricsFile& metrics() { return *metrics_; }
  void write(const Summary& summary) const;
  // Notices to print: where an earlier run was moved, which rows are missing. Each is returned once.
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
