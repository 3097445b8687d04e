// Fills in what depends on other values, and checks the values against each other; nothing is allocated before. Adds to
// Config::notices.
#pragma once

#include "train/config/config.hpp"

namespace heed::train {

// Each value alone is within its range already. Throws ConfigError at the first rule that is broken.
void resolve_config(Config& config);

// Only dropout masks are drawn with train.seed.
bool uses_train_seed(const Config& config);

}  // namespace heed::train
