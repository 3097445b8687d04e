// `heed data`: creates token files from texts, and inspects them.
#pragma once

#include "data/prepare.hpp"

namespace heed::train {

// Creates a token file, with a progress bar on a terminal, and prints its description.
void run_data_prepare(const data::PrepareConfig& config);
// Prints the description of a token file; every token is checked.
void run_data_info(const std::string& path);

}  // namespace heed::train
