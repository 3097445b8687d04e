// Fills in values that depend on others, and checks the values against each other, before anything is allocated. Adds
// to Config::notices.
#pragma once

#include "train/config/config.hpp"

namespace heed::train {

// Each value must already be within its own range. Throws ConfigError at the first rule that is violated.
void resolve_config(Config& config);

// Whether train.seed has an effect: only dropout masks are drawn with it.
bool uses_train_seed(const Config& config);

}  // namespace heed::train
