// From a command to its exit code: errors become one line on stderr.
#pragma once

#include <functional>
#include <string>

namespace heed::train {

// `heed: TEXT`, in which control characters are written as \u001B, so that it is one line and moves no terminal,
// whatever a user or a file wrote. Returns the code.
int print_error(const std::string& text, int code);

// Runs the command and returns its exit code, or that of the error that it throws (train/commands/main.cpp lists them).
int guarded(const std::function<int()>& command);

// The same for a command that does not share its work among ranks. If a launcher has started several processes, they
// would print everything several times and write the same files: all return 2, and rank 0 names the launcher.
int run_alone(const std::string& command, const std::function<int()>& action);

}  // namespace heed::train
