#include "train/checkpoint/checkpoint_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <memory>
#include <system_error>

#include "autograd/core/host_limits.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_file.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStepPrefix = "step-", kExtension = ".h5";

std::string step_file_name(int64_t step) { return fmt::format("{}{:06}{}", kStepPrefix, step, kExtension); }

// The step in such a name; nullopt for any other name.
std::optional<int64_t> parse_step(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return {};
  int64_t step = 0;
  const std::string_view rest = name.substr(kStepPrefix.size());
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), step);
  return parsed.ec == std::errc{} && name == step_file_name(step) ? std::optional(step) : std::nullopt;
}

std::string full_name(const fs::path& path) { return absolute_name(path); }

// Converts file system errors of `run` to CheckpointError with the action and the path.
template <class Action>
void explaining(const fs::path& path, std::string_view action, Action run) {
  try {
    run();
  } catch (const fs::filesystem_error& error) {
    throw CheckpointError(fmt::format("cannot {} {}: {}", action, full_name(path), error.code().message()));
  }
}

bool is_there(const fs::path& path) {
  bool found = false;
  explaining(path, "look for", [&] { found = fs::exists(path); });
  return found;
}

std::vector<std::string> file_names(const fs::path& folder) {
  std::vector<std::string> names;
  explaining(folder, "list the checkpoints in", [&] {
    if (!fs::exists(folder)) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      names.push_back(entry.path().filename().string());
    }
  });
  std::sort(names.begin(), names.end());
  return names;
}

int64_t step_of(const CheckpointContent& content) {
  const int64_t step = content.integer(kStepName);
  require<CheckpointError>(step >= 0, "checkpoint {}: integers/{} is {}, it must not be negative", content.file,
                           kStepName, step);
  return step;
}

std::optional<double> best_loss_of(const CheckpointContent& content) {
  const auto found = content.reals.find(kBestName);
  return found == content.reals.end() ? std::nullopt : std::optional(found->second);
}

// Whether the step of the first is divisible by a lower power of two.
bool is_less_round(const fs::path& a, const fs::path& b) {
  const auto power = [](const fs::path& file) {
    return std::countr_zero(static_cast<uint64_t>(checkpoint_step(file).value()));
  };
  return power(a) < power(b);
}

// Returns nullopt and adds a reason if the file is missing or damaged. A file that cannot be read may be undamaged:
// this is an error, because otherwise the next save would replace it.
std::optional<CheckpointContent> try_load(const fs::path& path, std::vector<std::string>& reasons) {
  try {
    CheckpointContent content = load_checkpoint(path);
    step_of(content);
    return content;
  } catch (const UnreadableError& error) {
    throw UnreadableError(
        fmt::format("{}; make it readable, or move it out of the folder to go on without it", error.what()));
  } catch (const CheckpointError& error) {
    reasons.emplace_back(error.what());
    return {};
  }
}

}  // namespace

bool is_checkpoint_name(std::string_view file_name) {
  return file_name == "last.h5" || file_name == "best.h5" || parse_step(file_name).has_value();
}

std::optional<int64_t> checkpoint_step(const fs::path& file) { return parse_step(file.filename().string()); }

CheckpointFolder::CheckpointFolder(const fs::path& run_dir, int64_t keep)
    : folder_(run_dir / "checkpoints"), keep_(keep) {}

std::vector<fs::path> CheckpointFolder::earlier() const {
  std::vector<int64_t> steps;
  for (const std::string& name : file_names(folder_)) {
    if (const auto step = parse_step(name)) steps.push_back(*step);
  }
  std::sort(steps.rbegin(), steps.rend());
  std::vector<fs::path> paths;
  for (const int64_t step : steps) paths.push_back(folder_ / step_file_name(step));
  return paths;
}

std::vector<std::string> CheckpointFolder::prepare(const PlannedCheckpoints& planned) {
  explaining(folder_, "make the folder", [&] { fs::create_directories(folder_); });
  std::vector<std::string> removed;
  for (const std::string& name : file_names(folder_)) {
    if (!data::is_temporary_name(name) || !fs::is_regular_file(fs::symlink_status(folder_ / name))) continue;
    explaining(folder_ / name, "remove", [&] { fs::remove(folder_ / name); });
    removed.push_back(name);
  }
  probe();
  const auto replaced = static_cast<int64_t>(earlier().size()), last_there = is_there(last()) ? int64_t{1} : 0;
  const int64_t kept = std::min(keep_, std::max<int64_t>(replaced + last_there + planned.saves - 1, 0));
  // While a checkpoint is written, the one that it replaces still exists.
  const int64_t most = 1 + (planned.has_best ? 1 : 0) + kept + 1;
  require_space(planned.file_bytes, most - replaced - last_there - (is_there(best()) ? 1 : 0));
  return removed;
}

// Its files have names of temporary files: if the process is killed here, the next one removes them.
void CheckpointFolder::probe() const {
  const fs::path file = folder_ / data::temporary_name("probe"),
                 second_name = folder_ / data::temporary_name("probe-2");
  try {
    data::write_file_durably(file, "probe");
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("cannot write checkpoints to {}: {}; choose another folder with train.run_dir",
                                      full_name(folder_), error.what()));
  }
  if (keep_ > 0) {
    explaining(folder_, "keep earlier checkpoints (train.keep_checkpoints above 0 needs hard links) in", [&] {
      fs::remove(second_name);
      fs::create_hard_link(file, second_name);
    });
  }
  explaining(folder_, "remove a file from", [&] {
    fs::remove(second_name);
    fs::remove(file);
  });
}

// Reserves the space file by file, as saving will use it: this checks the file size limit, quotas and the free space.
void CheckpointFolder::require_space(int64_t file_bytes, int64_t files) const {
  std::vector<std::unique_ptr<data::PosixFile>> reserved;
  std::string reason;
  for (int64_t i = 0; i < files && file_bytes > 0 && reason.empty(); ++i) {
    const fs::path path = folder_ / data::temporary_name(fmt::format("space-{}", i));
    try {
      reserved.push_back(std::make_unique<data::PosixFile>(path.string(), data::PosixFile::Access::create));
      reserved.back()->reserve(file_bytes);
    } catch (const DataError& error) {
      reason = error.what();
    }
  }
  for (size_t i = 0; i < reserved.size(); ++i) {
    const fs::path path = folder_ / data::temporary_name(fmt::format("space-{}", i));
    explaining(path, "remove", [&] { fs::remove(path); });
  }
  std::error_code ignored;
  const fs::space_info space = fs::space(folder_, ignored);
  require<CheckpointError>(
      reason.empty(),
      "not enough disk space in {}: {} checkpoint files of {} need {}, {} are free ({}); free space, choose another "
      "folder with train.run_dir, or lower train.keep_checkpoints",
      full_name(folder_), files, human_bytes(file_bytes), human_bytes(file_bytes * files),
      human_bytes(static_cast<int64_t>(space.available)), reason);
}

void CheckpointFolder::save_last(const CheckpointContent& content) {
  const int64_t step = step_of(content);
  if (keep_ > 0 && last_step_ && *last_step_ < step) link_previous(*last_step_);
  save_checkpoint(last(), content);
  last_step_ = step;
  prune(step);
  if (!stale_best_step_ || step < *stale_best_step_) return;
  explaining(best(), "remove", [&] { fs::remove(best()); });
  stale_best_step_.reset();
}

void CheckpointFolder::save_best(const CheckpointContent& content) {
  step_of(content);
  save_checkpoint(best(), content);
  stale_best_step_.reset();
}

fs::path CheckpointFolder::save_earlier(const CheckpointContent& content) {
  const fs::path file = folder_ / step_file_name(step_of(content));
  require<CheckpointError>(fs::symlink_status(file).type() == fs::file_type::not_found,
                           "{} exists, but is no undamaged checkpoint of that step: move it away", full_name(file));
  save_checkpoint(file, content);
  return file;
}

// Creates a hard link to the current last.h5: it keeps that name when last.h5 is replaced, and no data is copied.
void CheckpointFolder::link_previous(int64_t step) {
  const fs::path path = folder_ / step_file_name(step);
  std::error_code error;
  fs::remove(path, error);
  if (!error) fs::create_hard_link(last(), path, error);
  if (error) {
    notices_.push_back(
        fmt::format("the earlier checkpoint cannot be kept as {}: {}", full_name(path), error.message()));
  }
}

void CheckpointFolder::prune(int64_t step) const {
  const auto remove = [](const fs::path& path) { explaining(path, "remove", [&] { fs::remove(path); }); };
  std::vector<fs::path> kept;
  for (const fs::path& path : earlier()) {
    if (*checkpoint_step(path) < step) {
      kept.push_back(path);
    } else {
      remove(path);
    }
  }
  while (static_cast<int64_t>(kept.size()) > keep_) {
    const auto superfluous = std::min_element(kept.rbegin(), keep_ > 0 ? kept.rend() - 1 : kept.rend(), is_less_round);
    remove(*superfluous);
    kept.erase(std::next(superfluous).base());
  }
}

// A best.h5 that is not the best of the loaded checkpoint stays until save_best() replaces it or save_last() reaches
// its step.
LoadedCheckpoint CheckpointFolder::check_best(LoadedCheckpoint loaded) {
  const bool is_file = is_there(best());
  const std::optional<double> known = best_loss_of(loaded.content);
  std::vector<std::string> reasons;
  if (!is_file) reasons.push_back(fmt::format("there is no {}", full_name(best())));
  const std::optional<CheckpointContent> found = is_file ? try_load(best(), reasons) : std::nullopt;
  if (found) {
    loaded.has_its_best = best_loss_of(*found) == known;
    reasons.push_back(
        fmt::format("{} of step {} is not the best that {} knows", found->file, step_of(*found), loaded.content.file));
  }
  stale_best_step_.reset();
  if (is_file && !loaded.has_its_best) stale_best_step_ = found ? step_of(*found) : 0;
  if (!loaded.has_its_best && (is_file || known)) {
    loaded.notices.push_back(reasons.front() + "; best_val_loss is reset: the search for the best starts again here");
  }
  return loaded;
}

LoadedCheckpoint CheckpointFolder::load_newest() {
  const std::vector<fs::path> replaced = earlier();
  const bool has_last = is_there(last()), has_best = is_there(best());
  require<CheckpointError>(has_last || has_best || !replaced.empty(), "there is no checkpoint in {}",
                           full_name(folder_));
  std::vector<std::string> reasons;
  if (auto content = try_load(last(), reasons)) {
    last_step_ = step_of(*content);
    return check_best({std::move(*content), {}});
  }
  std::optional<CheckpointContent> newest;
  for (auto path = replaced.begin(); path != replaced.end() && !newest; ++path) newest = try_load(*path, reasons);
  if (has_best) {
    auto content = try_load(best(), reasons);
    if (content && (!newest || step_of(*content) > step_of(*newest))) newest = std::move(content);
  }
  require<CheckpointError>(newest.has_value(), "no checkpoint in {} can be loaded: {}", full_name(folder_),
                           fmt::join(reasons, "; "));
  reasons.push_back(fmt::format("instead, {} of step {} is taken", newest->file, step_of(*newest)));
  return check_best({std::move(*newest), std::move(reasons)});
}

}  // namespace heed::train
