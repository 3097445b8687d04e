// Runs a command and returns its exit code; errors become one line on stderr.
#pragma once

#include <functional>
#include <string>

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

}  // namespace heed::train
