// Runs a sweep: each run as a separate process, several side by side, and goes on where an earlier process was.
//
// The runs of the baseline come first, since their noise says what the sweep can find. A run that is complete or has
// diverged is kept. One that was interrupted continues from its checkpoint, or starts again if it has none: the results
// are the same. Several processes may work on one sweep at the same time, on one or several machines, such as the tasks
// of a Slurm array: each takes the runs that no other has locked (SweepFolder::lock_run()).
#pragma once

#include "train/ablate/sweep.hpp"

namespace heed::train {

struct AblationOptions {
  int64_t jobs = 0;  // runs side by side; 0: one for each processor or CUDA device, as far as memory allows
};

// Prints a line for each run that ends, on a terminal also the progress of all, and at the end the tables; writes the
// results into the folder of the sweep, and draws them unless train.plot is off. Returns the signal that stopped it, 0
// if none did: the runs then have stopped, each with a checkpoint. Throws ConfigError (see SweepFolder), DataError,
// Error if a file cannot be written.
int run_ablation(const Sweep& sweep, const AblationOptions& options);

}  // namespace heed::train
