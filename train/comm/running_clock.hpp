// Measures the running time of this process in seconds. A period in which the process is stopped (SIGSTOP, a suspended
// job) counts for two seconds at most, so that a rank that was stopped itself does not report others as missing.
#pragma once

#include <algorithm>
#include <chrono>

namespace heed::comm {

class RunningClock {
 public:
  // Call this several times a second: each call advances the clock by two seconds at most.
  double seconds() {
    const auto now = std::chrono::steady_clock::now();
    seconds_ += std::min(std::chrono::duration<double>(now - before_).count(), 2.0);
    before_ = now;
    return seconds_;
  }

 private:
  std::chrono::steady_clock::time_point before_ = std::chrono::steady_clock::now();
  double seconds_ = 0;
};

}  // namespace heed::comm
