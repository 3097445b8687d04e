// `heed data`: token files made from texts, and what they hold.
#pragma once

#include "data/prepare.hpp"

namespace heed::train {

// Makes a token file, with a progress bar on a terminal.
void run_data_prepare(const data::PrepareConfig& config);
// Prints what a token file holds; every token is checked.
void run_data_info(const std::string& path);

}  // namespace heed::train
