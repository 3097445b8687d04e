// The folder of a sweep. heed ablate uses only folders that it made or found empty, and replaces
// only its own files:
//
//   .heed/ablation              marks the folder
//   .heed/locks/               a lock file for each run: who trains it holds flock(2) on the file
//   .heed/failures/             why a run has failed, until it is started again
//   .heed/arms                  the arms for heed plot, which has no sweep file (train/plot/arm_list.hpp)
//   .heed/results               locked by the process that writes the results
//   configs/<arm>.toml          the resolved config of each arm; an arm is the same sweep only if it is the same config
//   runs/<arm>/seed-<seed>/     the run folders of heed train
//   logs/<arm>.seed-<seed>.txt  what heed train printed
//   ablation.csv, runs.csv, speed.csv, table.txt, ablation.h5    the results (train/ablate/results.hpp)
//   plot.svg                    the picture of the results (train/plot/plot.hpp), if heed made it
//   report.html                 the page of heed report, if heed made it
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/io/descriptor.hpp"
#include "train/ablate/run_result.hpp"
#include "train/ablate/sweep.hpp"

namespace heed::train {

class SweepFolder {
 public:
  // Creates and marks the folder, or checks that it is the folder of this sweep: its arms are the first of this sweep,
  // with the same configs. Seeds may be more or fewer than before, arms may have been added. Keeps a reference to the
  // sweep. Throws ConfigError, one line that names run_dir, before anything is changed.
  explicit SweepFolder(const Sweep& sweep);

  std::filesystem::path path() const { return path_; }
  std::filesystem::path config_file(const Arm& arm) const { return path_ / "configs" / (arm.folder + ".toml"); }
  std::filesystem::path run_folder(const Arm& arm, uint32_t seed) const;
  std::filesystem::path log_file(const Arm& arm, uint32_t seed) const;

  // Locks a run until all copies of the descriptor are closed; nullopt if another process has locked it. On a file
  // system without locks nothing is locked: only one process may then work on a sweep.
  std::optional<data::Descriptor> lock_run(const Arm& arm, uint32_t seed) const;

  // Waits until no other process has this lock.
  data::Descriptor lock_results() const;

  // The result of a run: that of read_run(), with the failure if one is noted, or if its files cannot be read; nullopt
  // if it was never started.
  std::optional<RunResult> result(const Arm& arm, uint32_t seed) const;
  // An empty reason forgets the failure.
  void note_failure(const Arm& arm, uint32_t seed, const std::string& reason) const;

  // Replaces a file of the folder atomically. Throws Error with its name.
  void write(const std::string& name, std::string_view bytes) const;

 private:
  std::string failure_file(const Arm& arm, uint32_t seed) const;
  void write_arms() const;
  void require_own() const;
  void require_same_sweep() const;

  const Sweep& sweep_;
  std::filesystem::path path_;
};

}  // namespace heed::train
