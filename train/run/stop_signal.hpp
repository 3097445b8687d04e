// Signals that ask a run to save and end after the current step.
//
//   SIGINT, SIGTERM   by hand, by launchers and batch systems
//   SIGHUP            the terminal is gone
//   SIGUSR1, SIGUSR2  batch systems (Slurm, LSF) some time before the end
//   SIGXCPU           the limit of processor time (ulimit -t, Grid Engine)
#pragma once

namespace heed::train {

// While it lives, these signals are only noted; but a SIGINT after another one ends the process at once. A second
// SIGTERM does not: some launchers pass it on to processes that had it already. A signal that the parent process set
// to be ignored (nohup, a background job of a script) stays ignored.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The number of the signal that came, 0 if none did.
  static int received();
};

// "SIGINT"; only for those above.
const char* stop_signal_name(int number);

}  // namespace heed::train
