// The lines that open the log of a run: the model, the batch and the data.
#pragma once

#include <string>

#include "train/trainer/trainer.hpp"

namespace heed::train {

// Model, batch, ranks, and notices about the device. Uses the config alone, so it can be printed before memory is
// allocated. The vocabulary size is left out if it is not known yet (0).
std::string config_header(const Config& config, Device device);
// Parameters, gradient buckets, entropies of the dataset: needs the model and the data.
std::string trainer_header(const Trainer& trainer);

}  // namespace heed::train
