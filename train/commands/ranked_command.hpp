// A command that several ranks may run together, from the config to the exit code.
#pragma once

#include <functional>

#include "train/comm/ranks.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// What one rank does; its result is an exit code, such as 128 + the number of the signal that stopped a run.
using RankedCommand = std::function<int(const Config&, comm::Ranks&)>;

// Loads the config, joins the ranks that the environment tells of, and runs `command` on each. Returns the exit code on
// all ranks, the largest of theirs, after the command of every rank is done. An error that all ranks know of is printed
// once; one that a rank meets alone is printed with its number and the step, and ends all of them. In a world of one
// exceptions come through. Throws CommunicationError before it waits for any other rank where ranks were started
// without MPI and this one cannot train on a CUDA device.
int run_on_ranks(const std::function<Config()>& load, const RankedCommand& command);

}  // namespace heed::train
