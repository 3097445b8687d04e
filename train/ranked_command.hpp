// A command that several ranks may run together, from the config to the exit code.
#pragma once

#include <functional>

#include "train/comm/ranks.hpp"
#include "train/config.hpp"

namespace heed::train {

// Loads the config, joins the ranks that the environment tells of, and runs `command` on each. Returns the exit code:
// an error that all ranks know of is printed once; one that a rank meets alone is printed with its number and the
// update, and ends all of them. In a world of one exceptions come through. Throws CommunicationError before it waits
// for any other rank where ranks were started without MPI and this one cannot train on a CUDA device.
int run_on_ranks(const std::function<Config()>& load, const std::function<void(const Config&, comm::Ranks&)>& command);

}  // namespace heed::train
