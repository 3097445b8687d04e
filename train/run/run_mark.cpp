#include "train/run/run_mark.hpp"

#include <algorithm>
#include <fstream>
#include <vector>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/checksum.hpp"
#include "train/checkpoint/checkpoint_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/output/tensorboard.hpp"
#include "train/run/layers_file.hpp"
#include "train/run/metrics.hpp"
#include "train/run/tensorboard_log.hpp"
#include "train/run/version.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMarkTitle = "heed run folder, format 1\n", kMadeFolder = "heed made this folder\n";
constexpr std::string_view kConfigTitle = "# The resolved config of this run, written by heed ";
constexpr std::string_view kChecksumTitle = "# checksum ";
constexpr std::string_view kConfigAdvice =
    "# --resume writes it again, unless it was edited: then it stays as it is.\n";
constexpr const char* kRunFiles[] = {"config.toml", "metrics.csv", kLayersFile, "summary.json", kPlotFile};

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

bool is_plain_file(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::regular;
}

// A symbolic link to a folder does not count.
bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::directory;
}

// Empty if the folder does not exist. Sorted, so that messages do not depend on the order of the file system.
std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    paths.push_back(entry->path());
  }
  const bool is_missing = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  require<ConfigError>(!error || is_missing,
                       "train.run_dir: cannot list {}: {}; choose another folder with "
                       "train.run_dir=…",
                       folder.string(), error.message());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// The first bytes of a regular file. Empty for anything else: opening a FIFO would block.
std::string read_start(const fs::path& path, size_t bytes) {
  if (!is_plain_file(path)) return {};
  std::string text(bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return text;
}

std::optional<fs::path> first_of(const std::vector<fs::path>& paths, bool (*matches)(const fs::path&)) {
  const auto found = std::find_if(paths.begin(), paths.end(), matches);
  return found == paths.end() ? std::nullopt : std::optional(*found);
}

bool has_temporary_name(const fs::path& path) { return data::is_temporary_name(path.filename().string()); }
bool has_checkpoint_name(const fs::path& path) { return is_checkpoint_name(path.filename().string()); }
bool is_own_checkpoint(const fs::path& path) {
  return is_plain_file(path) && (has_checkpoint_name(path) || has_temporary_name(path));
}
bool is_own_event_file(const fs::path& path) {
  return is_plain_file(path) && event_file_time(path.filename().string()).has_value();
}

bool is_own_inspect_file(const fs::path& path) {
  const bool is_known = std::find(std::begin(kInspectFiles), std::end(kInspectFiles), path.filename().string()) !=
                        std::end(kInspectFiles);
  return is_plain_file(path) && ((is_known && may_replace_inspect_file(path)) || has_temporary_name(path));
}

// The folders in a run folder that heed makes, and which of their entries it wrote.
struct KnownFolder {
  std::string_view name;
  bool (*is_own)(const fs::path& path);
};
constexpr KnownFolder kFolders[] = {
    {"checkpoints", is_own_checkpoint}, {kTensorBoardFolder, is_own_event_file}, {kInspectFolder, is_own_inspect_file}};

[[noreturn]] void refuse_mark(const fs::path& path) {
  throw ConfigError(
      fmt::format("train.run_dir: {} exists but was not made by heed, which needs that name for its mark; choose "
                  "another folder with train.run_dir=…",
                  path.string()));
}

std::string checksum_line(std::string_view config) {
  return fmt::format("{}{:016x}\n", kChecksumTitle, data::checksum(config.data(), static_cast<int64_t>(config.size())));
}

}  // namespace

std::optional<RunMark> read_mark(const fs::path& folder) {
  const fs::path own = folder / kHeedFolder, mark = own / "mark";
  if (!is_there(own)) return {};
  if (!is_folder(own)) refuse_mark(own);
  if (is_plain_file(mark)) {
    const std::string text = read_start(mark, 4096);
    if (text == kMarkTitle) return RunMark{.made_folder = false};
    if (text == std::string(kMarkTitle) + std::string(kMadeFolder)) return RunMark{.made_folder = true};
    refuse_mark(mark);
  }
  // No mark, but possibly the temporary file of a process that was killed while it wrote the mark.
  const std::vector<fs::path> left = entries(own);
  if (!std::all_of(left.begin(), left.end(), has_temporary_name)) refuse_mark(own);
  return {};
}

void write_mark(const fs::path& folder, const RunMark& mark) {
  const fs::path own = folder / kHeedFolder;
  try {
    fs::create_directory(own);
    data::write_file_durably(own / "mark", std::string(kMarkTitle) + std::string(mark.made_folder ? kMadeFolder : ""));
  } catch (const fs::filesystem_error& error) {
    throw ConfigError(fmt::format("train.run_dir: cannot make {}: {}; choose another folder with train.run_dir=…",
                                  own.string(), error.code().message()));
  } catch (const CheckpointError& error) {
    throw ConfigError(fmt::format("train.run_dir: cannot write {}: {}; choose another folder with train.run_dir=…",
                                  (own / "mark").string(), error.what()));
  }
}

std::optional<fs::path> find_in_the_way(const fs::path& folder) {
  for (const char* name : kRunFiles) {
    if (is_there(folder / name)) return folder / name;
  }
  const fs::path checkpoints = folder / "checkpoints";
  if (is_there(checkpoints) && !is_folder(checkpoints)) return checkpoints;
  const std::vector<fs::path> inside = entries(checkpoints);
  if (const auto found = first_of(inside, has_checkpoint_name)) return found;
  if (const auto found = first_of(inside, has_temporary_name)) return found;
  return first_of(entries(folder), has_temporary_name);
}

std::optional<fs::path> find_foreign(const fs::path& folder) {
  for (const fs::path& entry : entries(folder)) {
    const std::string name = entry.filename().string();
    if (name == kHeedFolder) continue;
    const auto known = std::find_if(std::begin(kFolders), std::end(kFolders),
                                    [&](const KnownFolder& folder_of_heed) { return name == folder_of_heed.name; });
    if (known != std::end(kFolders) && is_folder(entry)) {
      for (const fs::path& inner : entries(entry)) {
        if (!known->is_own(inner)) return inner;
      }
      continue;
    }
    if (name == kReportFile && is_plain_file(entry) && may_replace_report(entry)) continue;
    const bool is_run_file = std::find(std::begin(kRunFiles), std::end(kRunFiles), name) != std::end(kRunFiles);
    if (!is_plain_file(entry) || !(is_run_file || has_temporary_name(entry))) return entry;
    // heed may never have drawn it (train.plot), and users draw pictures of runs themselves.
    if (name == kPlotFile && !may_replace_picture(entry)) return entry;
    if (name == kLayersFile && !read_start(entry, 4096).starts_with(kLayersHeader)) return entry;
  }
  for (const fs::path& entry : entries(folder / kHeedFolder)) {
    const std::string name = entry.filename().string();
    if (name != "mark" && name != "lock" && !has_temporary_name(entry)) return entry;
  }
  return {};
}

bool holds_run(const fs::path& folder) {
  const fs::path metrics = folder / "metrics.csv";
  const std::string start = is_there(metrics) ? read_start(metrics, 4096) : std::string(kMetricsHeader);
  if (start != kMetricsHeader && start != kMetricsHeaderWithAverage) return true;
  return has_checkpoints(folder);
}

bool has_checkpoints(const fs::path& folder) {
  return first_of(entries(folder / "checkpoints"), has_checkpoint_name).has_value();
}

std::optional<fs::path> find_not_provably_own(const fs::path& folder) {
  if (!is_folder(folder / "checkpoints")) return folder / "checkpoints";
  std::vector<fs::path> checkpoints = entries(folder / "checkpoints");
  std::erase_if(checkpoints, [](const fs::path& path) { return !has_checkpoint_name(path); });
  for (const fs::path& path : checkpoints) {
    if (read_start(path, kCheckpointMark.size()) != kCheckpointMark) return path;
  }
  for (const fs::path& inner : {folder, folder / "checkpoints"}) {
    if (const auto found = first_of(entries(inner), has_temporary_name)) return found;
  }
  const fs::path metrics = folder / "metrics.csv", layers = folder / "layers.csv", summary = folder / "summary.json";
  if (is_there(metrics) && !starts_with_metrics_header(read_start(metrics, 4096))) return metrics;
  if (is_there(layers) && !read_start(layers, 4096).starts_with(kLayersHeader)) return layers;
  if (!may_replace_summary(summary)) return summary;
  if (!may_replace_picture(folder / kPlotFile)) return folder / kPlotFile;
  return {};
}

std::optional<fs::path> find_not_plain(const fs::path& folder) {
  const fs::path checkpoints = folder / "checkpoints";
  if (is_there(checkpoints) && !is_folder(checkpoints)) return checkpoints;
  std::vector<fs::path> files = entries(checkpoints);
  std::erase_if(files, [](const fs::path& path) { return !has_checkpoint_name(path); });
  for (const char* name : kRunFiles) {
    if (is_there(folder / name)) files.push_back(folder / name);
  }
  return first_of(files, [](const fs::path& path) { return !is_plain_file(path); });
}

void remove_temporaries(const fs::path& folder) {
  for (const fs::path& inner : {folder, folder / kHeedFolder}) {
    for (const fs::path& entry : entries(inner)) {
      if (!has_temporary_name(entry) || !is_plain_file(entry)) continue;
      std::error_code error;
      fs::remove(entry, error);
      require<CheckpointError>(!error, "cannot remove {}: {}", entry.string(), error.message());
    }
  }
}

std::string sign_config(const std::string& config) {
  return fmt::format("{}{}.\n{}{}\n{}", kConfigTitle, kVersion, kConfigAdvice, checksum_line(config), config);
}

bool may_replace_config(const fs::path& path) {
  if (!is_there(path)) return true;
  const std::string text = read_start(path, size_t{1} << 20);
  const size_t first_line = text.find('\n'), config = text.find("\n\n");
  if (!text.starts_with(kConfigTitle) || config == std::string::npos) return false;
  // The first line is skipped, since it contains the version.
  return text.substr(first_line + 1, config - first_line) ==
         std::string(kConfigAdvice) + checksum_line(std::string_view(text).substr(config + 2));
}

std::string summary_start() { return fmt::format("{{\n  \"written_by\": \"heed {}\",\n", kVersion); }

bool may_replace_summary(const fs::path& path) {
  if (!is_there(path)) return true;
  const std::string text = read_start(path, 64);
  // The second form was written by versions without the mark.
  return text.starts_with("{\n  \"written_by\": \"heed ") || text.starts_with("{\n  \"steps\": ");
}

bool may_replace_inspect_file(const fs::path& path) {
  if (!is_there(path)) return true;
  if (path.extension() == ".svg") return is_plain_file(path) && may_replace_picture(path);
  if (path.extension() == ".csv") return read_start(path, kHeadsColumns.size()) == kHeadsColumns;
  if (read_start(path, kCheckpointMark.size()) != kCheckpointMark) return false;
  try {
    const CheckpointContent content = load_checkpoint(path);
    return content.texts.contains("kind") && content.text("kind") == "inspection";
  } catch (const Error&) {
    return false;
  }
}

bool may_replace_picture(const fs::path& path) {
  if (!is_there(path)) return true;
  constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n", kPngMark("tEXtSoftware\0heed", 17);
  const std::string text = read_start(path, 4096);
  if (text.starts_with(kPngStart)) return text.find(kPngMark) != std::string::npos;
  return text.starts_with("<?xml ") && text.find("<dc:title>heed</dc:title>") != std::string::npos;
}

bool may_replace_report(const fs::path& path) {
  return !is_there(path) || read_start(path, kReportStart.size()) == kReportStart;
}

}  // namespace heed::train
