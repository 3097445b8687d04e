// The folder that `heed inspect` writes to; its files are kInspectFiles (train/run/run_mark.hpp).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace heed::train {

class InspectFolder {
 public:
  // Makes the folder, if it does not exist. Throws ConfigError, one line that names --output, if it cannot be made, or
  // holds a file of these names that heed inspect did not write; nothing is changed then.
  explicit InspectFolder(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  // Replaces one of the files. Throws Error with its name.
  void write(const std::string& name, std::string_view bytes) const;
  // Removes one of the files, if it exists.
  void remove(const std::string& name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace heed::train
