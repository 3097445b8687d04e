// Resolves command line arguments that name a run by its folder.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace heed::train {

// The checkpoint of a `.h5 file or run folder` argument: for a folder its checkpoints/last.h5. Throws CheckpointError
// for a folder without one; the message names the newest other checkpoint. A path that is not a folder is returned
// unchanged.
std::string checkpoint_of(const std::string& path);

// The config of `heed train PATH`. With --resume, PATH may be the folder of the run: the config is then its
// config.toml, and train.run_dir is the absolute path of that folder, whatever the file says, since the folder may have
// been moved. Throws what load_config() throws, and ConfigError for a folder without --resume, for a folder without a
// run, and if train.run_dir is also set on the command line.
Config load_train_config(const std::string& path, const std::vector<std::string>& overrides, bool resume);

}  // namespace heed::train
