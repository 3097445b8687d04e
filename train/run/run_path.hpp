// Command line arguments that name a run by its folder.
#pragma once

#include <string>
#include <vector>

#include "train/config/config.hpp"

namespace heed::train {

// The checkpoint that a `.h5 file or run folder` stands for: of a folder its checkpoints/last.h5. Throws
// CheckpointError for a folder without one, with its other checkpoints. A path that is no folder is returned as it is.
std::string checkpoint_of(const std::string& path);

// The config of `heed train PATH`. To resume, PATH may be the folder of the run: the config is then its config.toml,
// and train.run_dir is that folder, absolute, whatever the file says; the folder may have been moved. Throws what
// load_config() throws, and ConfigError for a folder without --resume, for one that holds no run, and if
// train.run_dir is set as well.
Config load_train_config(const std::string& path, const std::vector<std::string>& overrides, bool resume);

}  // namespace heed::train
