// The arms of a sweep in its folder, for readers that do not have the sweep file: ".heed/arms", a line for each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace heed::train {

struct ArmEntry {
  std::string folder;  // in runs/, without blanks
  std::string name;
};

inline constexpr const char* kArmsFile = ".heed/arms";

// Whether heed ablate made the folder.
bool is_sweep(const std::filesystem::path& folder);

// The content of the file. Control characters in names are escaped.
std::string arms_text(const std::vector<ArmEntry>& arms);

// Throws ConfigError if the sweep folder has no such file.
std::vector<ArmEntry> read_arms(const std::filesystem::path& sweep_folder);

}  // namespace heed::train
