// `heed gradcheck`: every operation, and a whole small GPT in each of its forms, against differences in f64.
#pragma once

#include <string>
#include <vector>

namespace heed::train {

// names: operations to check, or "gpt"; empty: all. Prints a line for each and returns whether all passed.
// Throws ConfigError for a name that does not exist, with those that do.
bool run_gradcheck(const std::vector<std::string>& names);

}  // namespace heed::train
