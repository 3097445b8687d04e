// Reads what train.init_from names: a checkpoint, a run folder, RUN@STEP, or a model folder of transformers.
#pragma once

#include <string>

#include "train/trainer/pretrained.hpp"

namespace heed::train {

// A folder with a config.json is one of transformers. Throws what import_model(), load_named_checkpoint() and
// parse_config() throw.
Pretrained read_pretrained(const std::string& path);

}  // namespace heed::train
