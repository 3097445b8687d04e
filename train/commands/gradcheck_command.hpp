// `heed gradcheck`: checks the gradients of every operation, and of a whole small GPT in each of its variants, against
// finite differences in f64.
#pragma once

#include <string>
#include <vector>

namespace heed::train {

// names: operations to check, or "gpt"; empty: all. Prints a line for each and returns whether all passed. Throws
// ConfigError for an unknown name, with the list of known names.
bool run_gradcheck(const std::vector<std::string>& names);

}  // namespace heed::train
