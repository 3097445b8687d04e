#include "train/huggingface/new_folder.hpp"

#include <sys/stat.h>

#include <cstring>

#include "autograd/core/check.hpp"
#include "data/io/posix_file.hpp"

namespace heed::train {
namespace fs = std::filesystem;

namespace {

std::string with_final_name(std::string message, const std::string& working, const std::string& final_path) {
  for (size_t at = message.find(working); at != std::string::npos; at = message.find(working, at + final_path.size())) {
    message.replace(at, working.size(), final_path);
  }
  return message;
}

}  // namespace

void with_final_name(const std::string& working, const std::string& final_path, const std::function<void()>& write) {
  try {
    write();
  } catch (const DataError& error) {
    throw DataError(with_final_name(error.what(), working, final_path));
  } catch (const CheckpointError& error) {
    throw CheckpointError(with_final_name(error.what(), working, final_path));
  }
}

NewFolder::NewFolder(const std::string& path) : path_(fs::absolute(path).lexically_normal()) {
  if (!path_.has_filename()) path_ = path_.parent_path();  // "folder/"
  const std::string shown = data::quoted_path(path_.string());
  std::error_code error;
  const bool is_there = fs::symlink_status(path_, error).type() != fs::file_type::not_found;
  require<ConfigError>(!is_there || (fs::is_directory(fs::symlink_status(path_)) && fs::is_empty(path_, error)),
                       "{} exists already: choose a new folder, or remove it first", shown);
  std::string name = (path_.parent_path() / ("." + path_.filename().string() + ".heed-XXXXXX")).string();
  require<ConfigError>(::mkdtemp(name.data()) != nullptr, "{} cannot be made: {}", shown, std::strerror(errno));
  working_path_ = name;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  fs::permissions(working_path_, fs::perms(0777 & ~mask), error);  // mkdtemp: for the owner alone
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  if (!is_committed_) fs::remove_all(working_path_, ignored);
}

void NewFolder::write(const std::string& name, std::string_view bytes) const {
  data::PosixFile file((working_path_ / name).string(), data::PosixFile::Access::create);
  file.write(0, bytes);
  file.sync();
}

void NewFolder::commit() {
  std::error_code error;
  fs::rename(working_path_, path_, error);  // replaces an empty folder, and nothing else
  require<DataError>(!error, "{} cannot be made: {}", data::quoted_path(path_.string()), error.message());
  is_committed_ = true;
}

}  // namespace heed::train
