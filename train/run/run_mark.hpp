// Which files in a folder heed created. Only those are ever replaced, renamed or removed.
//
//   <run folder>/.heed/mark      marks the folder as a run folder; also says whether heed created the folder itself
//   <run folder>/.heed/lock      train/run/run_folder.hpp
//   <run folder>/config.toml, metrics.csv, layers.csv, summary.json, plot.svg
//   <run folder>/report.html     heed report; no run replaces it
//   <run folder>/checkpoints/    last.h5, best.h5, step-<number>.h5
//   <run folder>/inspect/        inspect.h5, heads.csv, attention.svg (heed inspect)
//   <run folder>/tensorboard/    events.out.tfevents.<time>.<host>.<process>.<number>; never replaced
//   .<name>.heed-<process>       in these folders: a temporary file, left by a process that was killed while writing
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace heed::train {

inline constexpr const char* kHeedFolder = ".heed";
inline constexpr const char* kInspectFolder = "inspect";
inline constexpr const char* kInspectFiles[] = {"inspect.h5", "heads.csv", "attention.svg"};
inline constexpr const char* kPlotFile = "plot.svg";       // also in the folder of a sweep
inline constexpr const char* kReportFile = "report.html";  // also in the folder of a sweep
// The first lines of every report, up to the version of heed.
inline constexpr std::string_view kReportStart =
    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"heed ";

struct RunMark {
  bool made_folder = false;  // heed created the run folder, so heed may rename it
};

// nullopt if the folder has no mark or does not exist. Throws ConfigError if heed did not create ".heed".
std::optional<RunMark> read_mark(const std::filesystem::path& folder);

// Creates ".heed" with the mark. The folder must exist and have no mark yet. Throws ConfigError with the reason.
void write_mark(const std::filesystem::path& folder, const RunMark& mark);

// Returns an entry that a run would replace in a folder without a mark; nullopt if there is none.
std::optional<std::filesystem::path> find_in_the_way(const std::filesystem::path& folder);

// Returns an entry of a marked folder that heed did not create; nullopt if there is none.
std::optional<std::filesystem::path> find_foreign(const std::filesystem::path& folder);

// Whether a marked folder holds a run with at least one step: rows in metrics.csv, or a checkpoint.
bool holds_run(const std::filesystem::path& folder);

// Whether the folder has a file with the name of a checkpoint.
bool has_checkpoints(const std::filesystem::path& folder);

// Checks a folder without a mark, such as a copy, in which --resume is to continue: the content of each file that would
// be replaced must show that heed wrote it. Returns the first entry that does not, nullopt if there is none.
std::optional<std::filesystem::path> find_not_provably_own(const std::filesystem::path& folder);

// Removes temporary files of killed processes from the run folder and ".heed"; CheckpointFolder::prepare() does so for
// the checkpoints. The folder must be marked and locked.
void remove_temporaries(const std::filesystem::path& folder);

// The text of config.toml: a comment with the checksum of the config, then the config, so that an edited file is
// detected.
std::string sign_config(const std::string& config);
// Whether the file is missing or is an unedited text of sign_config().
bool may_replace_config(const std::filesystem::path& path);

// Returns an entry of a marked folder that has the name of a heed file but is not a regular file, or "checkpoints" if
// it is not a folder; nullopt if there is none.
std::optional<std::filesystem::path> find_not_plain(const std::filesystem::path& folder);

// The first lines of summary.json, which show that heed wrote it.
std::string summary_start();
bool may_replace_summary(const std::filesystem::path& path);

// The first columns of heads.csv, those of version 0.1; more may follow.
inline constexpr std::string_view kHeadsColumns =
    "layer,head,name,relative_score,entropy,distance,current,previous,first,duplicate,induction,segment,older_half,"
    "mean_ablation";

// Whether the file, one of kInspectFiles, is missing or was written by heed inspect.
bool may_replace_inspect_file(const std::filesystem::path& path);

// Whether the file is missing, or is a picture whose metadata names heed as its creator: the SVG element dc:creator, or
// the PNG text "Software".
bool may_replace_picture(const std::filesystem::path& path);

// Whether the file is missing, or begins with kReportStart.
bool may_replace_report(const std::filesystem::path& path);

}  // namespace heed::train
