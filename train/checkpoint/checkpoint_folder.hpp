// The checkpoints of a run, in run_dir/checkpoints:
//
//   last.h5          the newest; exists at any moment from the first save on
//   step-000123.h5   `keep` of those that last.h5 replaced, by step: the newest one, and others spread over the run
//   best.h5          the best one, according to the trainer
//   .*.heed-<number> temporary file of a killed save; never used as a checkpoint
//
// Each checkpoint stores the integer "step" (training steps done) and, after the first evaluation, the real
// "best_val_loss". Only one process at a time writes to a directory (train/run/run_folder.hpp).
// Every function throws CheckpointError with the file or directory and the reason.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/checkpoint/checkpoint_content.hpp"

namespace heed::train {

inline constexpr const char* kStepName = "step";
inline constexpr const char* kBestName = "best_val_loss";

// "last.h5", "best.h5" and "step-<number>.h5".
bool is_checkpoint_name(std::string_view file_name);
// The step in the name of a "step-<number>.h5"; nullopt for any other file.
std::optional<int64_t> checkpoint_step(const std::filesystem::path& file);

// The checkpoints that a run will save, for the check of disk space before its first step.
struct PlannedCheckpoints {
  int64_t file_bytes = 0;  // size of one checkpoint
  int64_t saves = 1;       // number of saves of last.h5
  bool has_best = false;   // whether best.h5 will be saved
};

struct LoadedCheckpoint {
  CheckpointContent content;         // content.file is its path
  std::vector<std::string> notices;  // for the user: why it is not last.h5, why best.h5 is not its best
  // Whether best.h5 is the best known to this checkpoint. It is not if the run was killed between a new best and the
  // next save: the repeated steps then find the same best again or, with changed keys, another one.
  bool has_its_best = false;
};

class CheckpointFolder {
 public:
  // keep: number of replaced checkpoints to keep, 0 for none. Does not access the disk.
  CheckpointFolder(const std::filesystem::path& run_dir, int64_t keep);

  std::filesystem::path last() const { return folder_ / "last.h5"; }
  std::filesystem::path best() const { return folder_ / "best.h5"; }
  // The existing replaced checkpoints, newest first.
  std::vector<std::filesystem::path> earlier() const;

  // Call before the first step: creates the directory, removes the temporary files of killed saves, and checks that
  // saving works and that the disk has space for the largest number of checkpoints that will exist at a time. Returns
  // the names of the files that were removed.
  std::vector<std::string> prepare(const PlannedCheckpoints& planned = {});

  // Replaces last.h5. Of the replaced ones more than `keep` are removed: first those whose step is divisible by the
  // lowest power of two, older ones before newer ones, but never the newest. So the others stay evenly spread, at
  // distances that double as the run grows (train/run/past_step.hpp). Checkpoints of this step or a later one belong to
  // a run that was abandoned when an earlier checkpoint was resumed; they are removed. If load_newest() found that
  // best.h5 is not the best of the loaded checkpoint, best.h5 is removed once the run has reached its step without a
  // new best: until then it is the best available. If the replaced checkpoint cannot be kept, the new one is still
  // saved, with a notice.
  void save_last(const CheckpointContent& content);
  void save_best(const CheckpointContent& content);
  // Saves the checkpoint of an earlier step and returns its file. Throws if there is a file of that name.
  std::filesystem::path save_earlier(const CheckpointContent& content);

  // Loads last.h5 or, if that is missing or damaged, the undamaged checkpoint with the most steps. Throws if there is
  // none, so that a run never restarts silently, and UnreadableError for a file that the system does not let it read.
  LoadedCheckpoint load_newest();

  // Messages for the user; each is returned once.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }

 private:
  void probe() const;
  void require_space(int64_t file_bytes, int64_t files) const;
  void link_previous(int64_t step);
  void prune(int64_t step) const;
  LoadedCheckpoint check_best(LoadedCheckpoint loaded);

  std::filesystem::path folder_;
  int64_t keep_;
  std::optional<int64_t> stale_best_step_ = {};  // step of a best.h5 to be removed; 0 if it is damaged
  std::optional<int64_t> last_step_ = {};        // of last.h5, if this process has saved or verified it
  std::vector<std::string> notices_ = {};
};

}  // namespace heed::train
