// The checkpoints of a run, in run_dir/checkpoints:
//
//   last.h5          the newest; there from the first save on, at any moment
//   step-000123.h5   those that last.h5 replaced, the newest `keep` of them, by step
//   best.h5          the one that the trainer called best
//   .*.heed-<number> left by a killed save; never taken for a checkpoint
//
// A checkpoint here has the integer "step": updates done, and, once there was an evaluation, the real "best_val_loss".
// One process writes a folder at a time (train/run/run_lock.hpp).
// Everything throws CheckpointError naming file or folder and the reason.
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

// What a run is going to save, for the check of the disk before its first step.
struct PlannedCheckpoints {
  int64_t file_bytes = 0;  // of one
  int64_t saves = 1;       // of last.h5
  bool has_best = false;   // whether there will be a best.h5
};

struct LoadedCheckpoint {
  CheckpointContent content;         // content.file says which it is
  std::vector<std::string> notices;  // to be shown: why it is not last.h5, why best.h5 is not its best
  // best.h5 is the best that this checkpoint knows. It is not where a run was killed between a new best and the next
  // save: then updates that are made again find it again, or, with other keys, another one.
  bool has_its_best = false;
};

class CheckpointFolder {
 public:
  // keep: how many replaced checkpoints stay, 0 for none. Touches nothing on the disk.
  CheckpointFolder(const std::filesystem::path& run_dir, int64_t keep);

  std::filesystem::path last() const { return folder_ / "last.h5"; }
  std::filesystem::path best() const { return folder_ / "best.h5"; }
  // The replaced ones that are there, the newest first.
  std::vector<std::filesystem::path> earlier() const;

  // Before the first step: makes the folder, removes the temporaries of killed saves and finds out whether saving can
  // work, and whether the disk has space for all checkpoints that will be there at a time. Gives the names of what it
  // removed.
  std::vector<std::string> prepare(const PlannedCheckpoints& planned = {});

  // Replaces last.h5. Checkpoints of this step or a later one belong to a run that was given up when an earlier
  // checkpoint was resumed; they are removed. So is a best.h5 that load_newest() found not to be the best of what it
  // loaded, once the run has passed its step without a better one: until then it is the best there is.
  // Where the replaced one cannot be kept, the new one is still saved, with a notice.
  void save_last(const CheckpointContent& content);
  void save_best(const CheckpointContent& content);

  // last.h5, or, where that is missing or damaged, the one with the most steps of those that are whole. Throws where
  // none is: a run never starts again in silence.
  LoadedCheckpoint load_newest();

  // To be shown, each given once.
  std::vector<std::string> take_notices() { return std::exchange(notices_, {}); }

 private:
  void probe() const;
  void require_space(int64_t file_bytes, int64_t files) const;
  void keep_replaced(int64_t step);
  void remove_surplus(int64_t step) const;
  LoadedCheckpoint with_best_checked(LoadedCheckpoint loaded);

  std::filesystem::path folder_;
  int64_t keep_;
  std::optional<int64_t> given_up_best_step_ = {};  // of a best.h5 that is to go; 0 where it is damaged
  std::optional<int64_t> last_step_ = {};           // of last.h5, if this process knows it and knows that it is whole
  std::vector<std::string> notices_ = {};
};

}  // namespace heed::train
