// A folder that appears complete or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace heed::train {

// Calls `write`, which writes to the path `working` for the time being: errors that it throws name `final_path`
// instead.
void with_final_name(const std::string& working, const std::string& final_path, const std::function<void()>& write);

class NewFolder {
 public:
  // Makes an empty folder next to `path`, whose files commit() puts in place. Throws ConfigError if there is something
  // at `path` other than an empty folder, or if it cannot be made.
  explicit NewFolder(const std::string& path);
  // Removes the folder and its files, unless commit() succeeded.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const std::filesystem::path& working_path() const { return working_path_; }
  const std::filesystem::path& path() const { return path_; }
  // Writes a file in it. Throws DataError.
  void write(const std::string& name, std::string_view bytes) const;
  // Renames it to the final path. Throws DataError if something is there by now.
  void commit();

 private:
  std::filesystem::path path_, working_path_;
  bool is_committed_ = false;
};

}  // namespace heed::train
