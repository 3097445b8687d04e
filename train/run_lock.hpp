// One process at a time trains in a run folder.
//
// The lock is flock(2) on the file "lock" in it. The system takes it back when the process ends, however it ends, so a
// file that is left says nothing. It holds the number of the process, for error texts.
#pragma once

#include <filesystem>

#include "train/descriptor.hpp"

namespace heed::train {

class RunLock {
 public:
  // The folder must be there. Throws ConfigError, one line that names train.run_dir, where another process has the lock
  // (nothing is changed then) or the file cannot be made.
  explicit RunLock(const std::filesystem::path& folder);

 private:
  Descriptor file_;
};

}  // namespace heed::train
