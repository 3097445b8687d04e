// Which files in a folder are heed's own. Only those are ever replaced, renamed or removed.
//
//   <run folder>/.heed/mark      makes the folder a run folder; also says whether heed made the folder itself
//   <run folder>/.heed/lock      train/run/run_lock.hpp
//   <run folder>/config.toml, metrics.csv, summary.json
//   <run folder>/checkpoints/    last.h5, best.h5, step-<number>.h5
//   .<name>.heed-<process>       in these folders: a file that was being written when the process was killed
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace heed::train {

inline constexpr const char* kHeedFolder = ".heed";

struct RunMark {
  bool made_folder = false;  // heed made the run folder, so heed may rename it
};

// Nothing where the folder has no mark, also where it is missing. Throws ConfigError where ".heed" is someone else's.
std::optional<RunMark> read_mark(const std::filesystem::path& folder);

// Makes ".heed" with the mark. The folder must be there and have no mark yet. Throws ConfigError with the reason.
void write_mark(const std::filesystem::path& folder, const RunMark& mark);

// An entry that a run would replace in a folder that has no mark; nothing if there is none.
std::optional<std::filesystem::path> find_in_the_way(const std::filesystem::path& folder);

// An entry of a folder with a mark that heed did not make; nothing if there is none.
std::optional<std::filesystem::path> find_foreign(const std::filesystem::path& folder);

// Whether a folder with a mark holds a run that made a step: rows in metrics.csv, or a checkpoint.
bool holds_run(const std::filesystem::path& folder);

// Whether there is a file of a checkpoint's name.
bool has_checkpoints(const std::filesystem::path& folder);

// Whether --resume may continue in a folder without a mark, such as a copy: at least one checkpoint is there, and
// each file that would be replaced shows by its content that heed wrote it. Otherwise the entry in question.
std::optional<std::filesystem::path> find_not_provably_own(const std::filesystem::path& folder);

// Removes what killed processes left in the run folder and in ".heed"; CheckpointFolder::prepare() does so among the
// checkpoints. The folder has a mark and is locked.
void remove_temporaries(const std::filesystem::path& folder);

// The text of config.toml: the config behind a comment that holds its checksum, so that an edited file is recognised.
std::string sign_config(const std::string& config);
// Whether a file is missing or is a text of sign_config(), unedited.
bool may_replace_config(const std::filesystem::path& path);

// Something else than a plain file under the name of one, in a folder with a mark, or a link in the place of
// "checkpoints"; nothing if there is none.
std::optional<std::filesystem::path> find_not_plain(const std::filesystem::path& folder);

// summary.json begins with this.
std::string summary_start();
bool may_replace_summary(const std::filesystem::path& path);

}  // namespace heed::train
