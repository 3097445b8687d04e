// SIGINT, SIGTERM and SIGUSR1 as a wish to stop at the next update boundary.
#pragma once

namespace heed::train {

// While it lives, these signals are only noted; but a SIGINT after another one ends the process at once. A second
// SIGTERM does not: of launchers that pass it on to processes that had it already there are some.
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
