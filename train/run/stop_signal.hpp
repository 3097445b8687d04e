// Signals that request a run to save a checkpoint and end after the current step.
//
//   SIGINT, SIGTERM   sent by a user, by launchers and batch systems
//   SIGHUP            the terminal was closed
//   SIGUSR1, SIGUSR2  sent by batch systems (Slurm, LSF) some time before the time limit
//   SIGXCPU           the limit of CPU time (ulimit -t, Grid Engine)
#pragma once

namespace heed::train {

// RAII: while it lives, these signals are only recorded; but a SIGINT after another of them ends the process at once. A
// second SIGTERM does not: some launchers forward it to processes that have received it already. A signal that the
// parent process set to be ignored (nohup, a background job of a script) stays ignored.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // The number of the last signal that was received, 0 if none was.
  static int received();
};

// "SIGINT"; "a signal" for a number that is not listed above.
const char* stop_signal_name(int number);

}  // namespace heed::train
