// Seconds in which this process ran. Time while it was stopped (SIGSTOP, a suspended job) hardly counts, so that a rank
// which was stopped itself does not report others as missing.
#pragma once

#include <algorithm>
#include <chrono>

namespace heed::comm {

class RunningClock {
 public:
  // To be asked a few times a second. Between two calls at most two seconds pass.
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
