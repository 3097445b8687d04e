// Runs a command and returns its exit code, in one process or on several ranks. Errors become one line on stderr.
#pragma once

#include <functional>
#include <string>

#include "train/comm/process_group.hpp"
#include "train/config/config.hpp"

namespace heed::train {

// Prints `heed: TEXT`. Control characters are escaped as \u001B, so that the text is one line and cannot control a
// terminal, whatever a user or a file contributed. Returns the code.
int print_error(const std::string& text, int code);

// Runs the command and returns its exit code, or that of the exception that it throws (train/commands/main.cpp lists
// them).
int guarded(const std::function<int()>& command);

// The same for a command that does not run on several ranks. If a launcher has started several processes, they would
// print everything several times and write the same files. Therefore all of them return 2, and rank 0 prints an error
// that names the launcher.
int run_alone(const std::string& command, const std::function<int()>& action);

// The command of one rank. Returns an exit code, such as 128 + the number of the signal that stopped a run.
using RankedCommand = std::function<int(const Config&, comm::ProcessGroup&)>;

// Loads the config, joins the process group of the launch environment, and runs `command` on each rank. Waits until the
// command of every rank is done, and returns the largest of their exit codes on all ranks. An error on all ranks
// (CollectiveError) is printed once; an error on one rank only is printed with its rank and step, and aborts all ranks.
// In a process group of size one, exceptions propagate. Throws CommunicationError, before it waits for any other rank,
// if ranks were started without MPI and this one cannot train on a CUDA device.
int run_on_ranks(const std::function<Config()>& load, const RankedCommand& command);

}  // namespace heed::train
