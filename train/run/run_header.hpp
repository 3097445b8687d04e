// The lines that open the log of a run: what is trained on what.
#pragma once

#include <string>

#include "train/trainer/trainer.hpp"

namespace heed::train {

// Model, batch, ranks, and notices on the device; known from the config alone, so it can be printed before memory is
// taken. The vocabulary is left out where it is not known yet (0).
std::string config_header(const Config& config, Device device);
// Parameters, gradient buckets, entropies of the source: needs the model and the data.
std::string trainer_header(const Trainer& trainer);

}  // namespace heed::train
