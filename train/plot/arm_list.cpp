#include "train/plot/arm_list.hpp"

#include <algorithm>
#include <string_view>

#include "autograd/core/check.hpp"
#include "data/io/utf8.hpp"
#include "train/config/config.hpp"

namespace heed::train {

namespace fs = std::filesystem;

bool is_sweep(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / ".heed" / "ablation", ignored);
}

std::string arms_text(const std::vector<ArmEntry>& arms) {
  std::string text;
  for (const ArmEntry& arm : arms) text += fmt::format("{} {}\n", arm.folder, data::printable(arm.name));
  return text;
}

std::vector<ArmEntry> read_arms(const fs::path& sweep_folder) {
  const fs::path file = sweep_folder / kArmsFile;
  require<ConfigError>(fs::exists(file),
                       "{} has no {}, which lists its arms: run heed ablate again, it keeps what is done",
                       sweep_folder.string(), kArmsFile);
  std::vector<ArmEntry> arms;
  const std::string text = read_small_file(file.string(), "list of arms");
  std::string_view rest = text;
  for (size_t end; (end = rest.find('\n')) != rest.npos; rest.remove_prefix(end + 1)) {
    const std::string_view line = rest.substr(0, end);
    const size_t blank = std::min(line.find(' '), line.size());
    arms.push_back({std::string(line.substr(0, blank)), std::string(line.substr(std::min(blank + 1, line.size())))});
  }
  return arms;
}

}  // namespace heed::train
