#include "train/inspect/inspect_folder.hpp"

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {
namespace fs = std::filesystem;

InspectFolder::InspectFolder(const fs::path& path) : path_(path) {
  for (const char* name : kInspectFiles) {
    require<ConfigError>(may_replace_inspect_file(path / name),
                         "inspect: {} was not written by heed inspect; choose another folder with --output",
                         data::quoted_path((path / name).string()));
  }
  std::error_code error;
  fs::create_directories(path, error);
  require<ConfigError>(!error, "inspect: cannot make the folder {}: {}; choose another with --output",
                       data::quoted_path(path.string()), error.message());
}

void InspectFolder::remove(const std::string& name) const {
  std::error_code ignored;
  fs::remove(path_ / name, ignored);
}

void InspectFolder::write(const std::string& name, std::string_view bytes) const {
  try {
    data::write_file_durably(path_ / name, bytes);
  } catch (const CheckpointError& error) {
    throw Error(fmt::format("inspect: cannot write {}: {}", data::quoted_path((path_ / name).string()), error.what()));
  }
}

}  // namespace heed::train
