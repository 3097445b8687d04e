// The run lock: one process at a time trains in a run folder.
//
// The lock is flock(2) on the file ".heed/lock" in it. The system releases it when the process ends, however it ends,
// so a leftover file has no meaning. The file contains the process id, for error messages.
#pragma once

#include <filesystem>

#include "data/io/descriptor.hpp"

namespace heed::train {

class RunLock {
 public:
  // The folder must have its mark (train/run/run_mark.hpp). Throws ConfigError, one line that names train.run_dir, if
  // another process holds the lock (nothing is changed then) or the file cannot be created.
  explicit RunLock(const std::filesystem::path& folder);
  // False on a file system without locks: then a second process is not excluded.
  bool is_held() const { return is_held_; }

 private:
  Descriptor file_;
  bool is_held_ = true;
};

}  // namespace heed::train
