// A whole training run: updates, evaluations, files and what is printed.
#pragma once

#include "train/config.hpp"
#include "train/metrics.hpp"

namespace heed::train {

Summary run_training(const Config& config);

}  // namespace heed::train
