// SIGINT, SIGTERM and SIGUSR1 as a wish to stop at the next update boundary.
#pragma once

namespace heed::train {

// While it lives, the first of these signals is only noted; a SIGINT or SIGTERM after it ends the process at once.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The name of the signal that came, nullptr if none did.
  static const char* received();
};

}  // namespace heed::train
