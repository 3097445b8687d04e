// Runs a command on several ranks, from the config to the exit code.
#pragma once

#include <functional>

#include "train/comm/process_group.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// The command of one rank. Returns an exit code, such as 128 + the number of the signal that stopped a run.
using RankedCommand = std::function<int(const Config&, comm::ProcessGroup&)>;

// Loads the config, joins the process group of the launch environment, and runs `command` on each rank. Waits until the
// command of every rank is done, and returns the largest of their exit codes on all ranks. An error on all ranks
// (CollectiveError) is printed once; an error on one rank only is printed with its rank and step, and aborts all ranks.
// In a process group of size one, exceptions propagate. Throws CommunicationError, before it waits for any other rank,
// if ranks were started without MPI and this one cannot train on a CUDA device.
int run_on_ranks(const std::function<Config()>& load, const RankedCommand& command);

}  // namespace heed::train
