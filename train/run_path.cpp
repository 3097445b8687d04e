#include "train/run_path.hpp"

#include <filesystem>
#include <system_error>

#include "autograd/core/check.hpp"
#include "data/posix_file.hpp"
#include "train/checkpoint_folder.hpp"

namespace heed::train {

namespace fs = std::filesystem;

std::string checkpoint_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const CheckpointFolder folder(path, 0);
  if (fs::exists(folder.last(), ignored)) return folder.last().string();
  const std::vector<fs::path> earlier = folder.earlier();
  const std::string hint = earlier.empty() ? std::string("a .h5 file or a run folder that holds one")
                                           : data::quoted_path(earlier.front().string()) + ", its newest checkpoint";
  throw CheckpointError(
      fmt::format("{} is a folder without checkpoints/last.h5: name {}", data::quoted_path(path), hint));
}

}  // namespace heed::train
