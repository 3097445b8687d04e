// One process at a time trains in a run folder.
//
// The lock is flock(2) on the file ".heed/lock" in it. The system releases it when the process ends, however it ends,
// so a file that is left means nothing. It holds the number of the process, for error texts.
#pragma once

#include <filesystem>

#include "data/io/descriptor.hpp"

namespace heed::train {

class RunLock {
 public:
  // The folder must have its mark (train/run/run_mark.hpp). Throws ConfigError, one line that names train.run_dir,
  // where another process has the lock (nothing is changed then) or the file cannot be made.
  explicit RunLock(const std::filesystem::path& folder);
  // False on a file system without locks: then nothing keeps a second process out.
  bool is_held() const { return is_held_; }

 private:
  Descriptor file_;
  bool is_held_ = true;
};

}  // namespace heed::train
