#include "train/run/run_path.hpp"

#include <filesystem>
#include <system_error>

#include "autograd/core/check.hpp"
#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"

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

Config load_train_config(const std::string& path, const std::vector<std::string>& overrides, bool resume) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) return load_config(path, overrides);
  const std::string folder = data::quoted_path(path);
  const fs::path file = fs::path(path) / "config.toml";
  require<ConfigError>(fs::exists(file, problem),
                       "config file {} is a folder, and there is no config.toml of a run in it", folder);
  require<ConfigError>(resume, "config file {} is a folder: to go on with the run in it, add --resume", folder);
  Config config = load_config(file.string(), overrides);
  require<ConfigError>(config.origin("train.run_dir").kind != OriginKind::command_line,
                       "{}: train.run_dir is the folder {} here, from which the run is resumed: leave it out",
                       config.origin("train.run_dir").place, folder);
  const fs::path absolute = fs::absolute(path, problem);
  require<ConfigError>(!problem, "the folder {} cannot be made absolute: {}; is the current folder still there?",
                       folder, problem.message());
  const fs::path plain = absolute.lexically_normal();
  config.train.run_dir = (plain.has_filename() ? plain : plain.parent_path()).string();
  return config;
}

}  // namespace heed::train
