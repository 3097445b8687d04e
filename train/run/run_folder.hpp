// The run folder: how it is named on the command line, which process may write to it, and its files other than
// checkpoints.
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

#include "data/io/descriptor.hpp"
#include "train/config/config.hpp"
#include "train/run/run_log.hpp"
#include "train/run/summary.hpp"

namespace heed::train {

// The run lock: one process at a time trains in a run folder.
//
// The lock is flock(2) on the file ".heed/lock" in it. The system releases it when the process ends, however it ends,
// so a leftover file has no meaning. The file contains the process id, for error messages.
class RunLock {
 public:
  // The folder must have its mark (train/run/run_mark.hpp). Throws ConfigError, one line that names train.run_dir, if
  // another process holds the lock (nothing is changed then) or the file cannot be created.
  explicit RunLock(const std::filesystem::path& folder);
  // False on a file system without locks: then a second process is not excluded.
  bool is_held() const { return is_held_; }

 private:
  data::Descriptor file_;
  bool is_held_ = true;
};

// The checkpoint of a `.h5 file or run folder` argument: for a folder its checkpoints/last.h5. Throws CheckpointError
// for a folder without one; the message names the newest other checkpoint. A path that is not a folder is returned
// unchanged.
std::string checkpoint_of(const std::string& path);

// The config of `heed train PATH`. With --resume, PATH may be the folder of the run: the config is then its
// config.toml, and train.run_dir is the absolute path of that folder, whatever the file says, since the folder may have
// been moved. Throws what load_config() throws, and ConfigError for a folder without --resume, for a folder without a
// run, and if train.run_dir is also set on the command line.
Config load_train_config(const std::string& path, const std::vector<std::string>& overrides, bool resume);

// Makes train.run_dir and data.path absolute, and resolves symbolic links in run_dir: once started, a run depends
// neither on the current folder nor on a link. Throws ConfigError if run_dir cannot be resolved.
void fix_paths(Config& config);

class RunFolder {
 public:
  // config: already processed by fix_paths(). Acquires the lock, and moves an earlier run
  // aside. Throws ConfigError, which names train.run_dir, if the folder is refused, locked or cannot be written,
  // CheckpointError if there is no checkpoint to resume from.
  RunFolder(const Config& config, bool resume);

  // Writes config.toml, metrics.csv, with train.log_layers layers.csv, with train.tensorboard an event file, and a
  // summary.json with the status "running". A run that resumes after `resumed_step` steps keeps the rows up to that
  // step. Throws CheckpointError if metrics.csv cannot be read or is something else; a missing one is started with the
  // next step, with a notice.
  void begin(std::optional<int64_t> resumed_step);

  const std::filesystem::path& path() const { return path_; }
  RunLog& log() { return *log_; }  // after begin()
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
  std::optional<RunLog> log_;
  std::vector<std::string> notices_;
};

}  // namespace heed::train
