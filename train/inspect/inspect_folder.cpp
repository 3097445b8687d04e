#include "train/inspect/inspect_folder.hpp"

#include <fstream>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/inspect/inspection_report.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

// The first bytes of a file, which show that heed inspect wrote it.
std::string_view start_of(const std::string& name) { return name == "inspect.h5" ? kCheckpointMark : kHeadsHeader; }

bool may_replace(const fs::path& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::not_found) return true;
  if (type != fs::file_type::regular) return false;
  if (path.extension() == ".svg") return may_replace_picture(path);
  const std::string_view start = start_of(path.filename().string());
  std::string text(start.size(), '\0');
  std::ifstream(path, std::ios::binary).read(text.data(), static_cast<std::streamsize>(text.size()));
  return text == start;
}

}  // namespace

InspectFolder::InspectFolder(const fs::path& path) : path_(path) {
  for (const char* name : kInspectFiles) {
    require<ConfigError>(may_replace(path / name),
                         "inspect: {} was not written by heed inspect; choose another folder with --output",
                         data::quoted_path((path / name).string()));
  }
  std::error_code error;
  fs::create_directories(path, error);
  require<ConfigError>(!error, "inspect: cannot make the folder {}: {}; choose another with --output",
                       data::quoted_path(path.string()), error.message());
}

void InspectFolder::write(const std::string& name, std::string_view bytes) const {
  try {
    data::write_file_durably(path_ / name, bytes);
  } catch (const CheckpointError& error) {
    throw Error(fmt::format("inspect: cannot write {}: {}", data::quoted_path((path_ / name).string()), error.what()));
  }
}

}  // namespace heed::train
