// Command line arguments that name a run by its folder.
#pragma once

#include <string>
#include <vector>

namespace heed::train {

// The checkpoint that a `.h5 file or run folder` stands for: of a folder its checkpoints/last.h5. Throws
// CheckpointError for a folder without one, with its other checkpoints. A path that is no folder is returned as it is.
std::string checkpoint_of(const std::string& path);

}  // namespace heed::train
