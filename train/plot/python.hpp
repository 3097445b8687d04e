// Runs a script with the first `python3` on PATH that has matplotlib.
#pragma once

#include <string>
#include <vector>

#include "autograd/core/check.hpp"

namespace heed::train {

// This machine cannot run the script. Exit code 5, like other errors of the machine.
struct PythonError : DeviceError {
  using DeviceError::DeviceError;
};

// The exit code by which a script says that it needs matplotlib.
inline constexpr int kNoMatplotlib = 3;

// Runs `python3 -c script arguments…` with `input` as stdin, and returns what the script writes to stdout. Its stderr
// is shown only as the reason of an error. A python3 that ends with kNoMatplotlib is passed over for the next one on
// PATH, such as that of the system after that of a virtual environment. Throws PythonError, one line, if there is no
// python3 or none has matplotlib, if the script fails, or if it takes longer than a minute; it is then killed.
std::string run_python(const std::string& script, const std::vector<std::string>& arguments, const std::string& input);

}  // namespace heed::train
