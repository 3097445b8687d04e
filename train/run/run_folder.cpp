#include "train/run/run_folder.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/posix_file.hpp"
#include "train/checkpoint/checkpoint_folder.hpp"
#include "train/config/config_schema.hpp"
#include "train/config/config_value.hpp"
#include "train/config/toml_reader.hpp"
#include "train/run/past_step.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

fs::path lock_path(const fs::path& folder) { return folder / kHeedFolder / "lock"; }

void require_success(bool success, const fs::path& folder) {
  const int error = errno;
  require<ConfigError>(success, "train.run_dir: cannot lock {}: {}; choose another folder with train.run_dir=…",
                       lock_path(folder).string(), std::generic_category().message(error));
}

// The process that wrote the lock file: "process 123".
std::string holder(int file) {
  char number[20];
  const ssize_t length = data::retry_interrupted([&] { return ::pread(file, number, sizeof(number), 0); });
  return length > 0 ? "process " + std::string(number, static_cast<size_t>(length)) : "another process";
}

bool is_same_file(int file, const fs::path& path) {
  struct stat held {
  }, named{};
  return ::fstat(file, &held) == 0 && ::lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

constexpr const char* kChoose = "choose another folder with train.run_dir=…";

// Sets a path unless a config file cannot represent it: the config in a checkpoint could not be read back.
void set_if_storable(Config& config, const char* table, const char* name, const fs::path& path) {
  const std::optional<ConfigValue> value = read_toml_value(quote(path.string()));
  if (value) find_key(table, name)->set(config, *value);
}

// Removes the trailing slash of "runs/x/", so that a suffix can be appended to the name.
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

bool is_inside(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(path, ignored);
  return !ignored && std::mismatch(folder.begin(), folder.end(), real.begin(), real.end()).first == folder.end();
}

// Renames without replacing an existing entry; returns false if `to` exists.
bool rename_to_free(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  const int error = errno;
  if (error == EEXIST) return false;
  if (error != EINVAL && error != ENOSYS)
    throw fs::filesystem_error("", from, std::error_code(error, std::generic_category()));
  if (fs::exists(fs::symlink_status(to))) return false;
  fs::rename(from, to);
  return true;
}

void write_file(const fs::path& path, const std::string& text) {
  try {
    data::write_file_durably(path, text);
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("cannot write {}: {}", path.string(), error.what()));
  }
}

}  // namespace

RunLock::RunLock(const fs::path& folder) {
  const fs::path path = lock_path(folder);
  // heed creates a regular file: do not follow a symbolic link, and do not block on a FIFO.
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  file_ = data::Descriptor(data::retry_interrupted([&] { return ::open(path.c_str(), flags, 0666); }));
  require_success(file_.number() >= 0, folder);
  const bool locked = data::retry_interrupted([&] { return ::flock(file_.number(), LOCK_EX | LOCK_NB); }) == 0;
  const int error = locked ? 0 : errno;
  require<ConfigError>(error != EWOULDBLOCK,
                       "train.run_dir: {} is already training in {}; wait for it to finish or choose another folder "
                       "with train.run_dir=…",
                       holder(file_.number()), folder.string());
  is_held_ = locked;
  const bool has_no_locks = error == ENOLCK || error == ENOTSUP || error == ENOSYS || error == EINVAL;
  errno = error;
  require_success(locked || has_no_locks, folder);
  // Another process that has just moved the earlier run aside has moved this lock file with it.
  require<ConfigError>(is_same_file(file_.number(), path),
                       "train.run_dir: another process is about to train in {}; wait for it to finish or choose "
                       "another folder with train.run_dir=…",
                       folder.string());
  const std::string number = std::to_string(::getpid());
  require_success(::ftruncate(file_.number(), 0) == 0, folder);
  require_success(::pwrite(file_.number(), number.data(), number.size(), 0) > 0, folder);
}

std::string checkpoint_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const CheckpointFolder folder(path, 0);
  if (fs::exists(folder.last(), ignored)) return folder.last().string();
  const std::vector<fs::path> earlier = folder.earlier();
  const std::string hint = earlier.empty() ? std::string("a .h5 file or a run folder that holds one")
                                           : data::quoted_path(earlier.front().string()) + ", its newest checkpoint";
  throw CheckpointError(
      fmt::format("{} is a folder without checkpoints/last.h5: name {}", data::quoted_path(path), hint));
}

Config load_train_config(const std::string& path, const std::vector<std::string>& overrides, bool resume) {
  std::error_code problem;
  if (!fs::is_directory(path, problem)) return load_config(path, overrides);
  const std::string folder = data::quoted_path(path);
  const fs::path file = fs::path(path) / "config.toml";
  require<ConfigError>(fs::exists(file, problem),
                       "config file {} is a folder, and there is no config.toml of a run in it", folder);
  require<ConfigError>(resume, "config file {} is a folder: to go on with the run in it, add --resume", folder);
  Config config = load_config(file.string(), overrides);
  require<ConfigError>(config.origin("train.run_dir").kind != OriginKind::command_line,
                       "{}: train.run_dir is the folder {} here, from which the run is resumed: leave it out",
                       config.origin("train.run_dir").place, folder);
  const fs::path absolute = fs::absolute(path, problem);
  require<ConfigError>(!problem, "the folder {} cannot be made absolute: {}; is the current folder still there?",
                       folder, problem.message());
  const fs::path plain = absolute.lexically_normal();
  config.train.run_dir = (plain.has_filename() ? plain : plain.parent_path()).string();
  return config;
}

void fix_paths(Config& config) {
  std::error_code error;
  fs::path folder = fs::absolute(config.train.run_dir, error);
  if (!error) folder = fs::weakly_canonical(folder, error);
  require<ConfigError>(!error, "train.run_dir: {} cannot be resolved: {}; give an absolute path with train.run_dir=…",
                       config.train.run_dir, error.message());
  set_if_storable(config, "train", "run_dir", without_slash(folder));
  if (!config.train.init_from.empty()) {
    const fs::path init_path = fs::absolute(config.train.init_from, error);
    if (!error) set_if_storable(config, "train", "init_from", without_slash(init_path.lexically_normal()));
  }
  if (config.data.is_synthetic()) return;
  const fs::path data_path = fs::absolute(config.data.path, error);
  if (!error) set_if_storable(config, "data", "path", data_path.lexically_normal());
  if (config.data.tokenizer_file.empty()) return;
  const fs::path tokenizer_path = fs::absolute(config.data.tokenizer_file, error);
  if (!error) set_if_storable(config, "data", "tokenizer_file", without_slash(tokenizer_path.lexically_normal()));
}

RunFolder::RunFolder(const Config& config, bool resume) : config_(config), path_(config.train.run_dir) {
  try {
    // A path that a config file cannot represent is still as the user wrote it (fix_paths()).
    path_ = without_slash(fs::weakly_canonical(fs::absolute(path_)));
    require<ConfigError>(!fs::is_symlink(path_), "train.run_dir: {} is a link that leads nowhere", path_.string());
    require<ConfigError>(!fs::exists(path_) || fs::is_directory(path_),
                         "train.run_dir: {} is a file, it must be a folder; {}", path_.string(), kChoose);
    resume ? start_resumed() : start_new();
    require_own_files();
    remove_temporaries(path_);
  } catch (const fs::filesystem_error& error) {
    refuse(fmt::format("it cannot be used: {}", error.code().message()));
  }
}

void RunFolder::refuse(const std::string& reason) const {
  throw ConfigError(fmt::format("train.run_dir: {}: {}; {}", path_.string(), reason, kChoose));
}

void RunFolder::start_new() {
  const bool made = fs::create_directories(path_);
  if (!read_mark(path_)) {
    if (const auto file = find_in_the_way(path_)) {
      refuse(fmt::format("it is not a run folder of heed, and a run would replace {}", file->string()));
    }
    write_mark(path_, {.made_folder = made});
  }
  lock_.emplace(path_);
  if (!holds_run(path_)) return;
  move_aside();
  fs::create_directories(path_);
  write_mark(path_, {.made_folder = true});
  lock_.emplace(path_);
}

void RunFolder::start_resumed() {
  require<CheckpointError>(fs::exists(path_), "resume: there is no run folder {}", path_.string());
  if (!read_mark(path_)) {
    require<CheckpointError>(has_checkpoints(path_), "resume: there is no checkpoint in {}",
                             (path_ / "checkpoints").string());
    if (const auto file = find_not_provably_own(path_)) {
      refuse(fmt::format("it has no .heed folder, and {} was not written by heed", file->string()));
    }
    write_mark(path_, {.made_folder = false});
  }
  lock_.emplace(path_);
}

void RunFolder::move_aside() {
  const std::string instead = fmt::format("it holds an earlier run (continue that with --resume)");
  if (config_.train.existing_run == ExistingRun::refuse) refuse(instead + ", and train.existing_run is \"refuse\"");
  if (!read_mark(path_)->made_folder) {
    refuse(instead + ", which is not moved aside, since heed did not make the folder");
  }
  if (const auto file = find_foreign(path_)) {
    refuse(fmt::format("{}, which is not moved aside, since heed did not make {}", instead, file->string()));
  }
  std::error_code ignored;
  const std::optional<RunStep> past = parse_run_step(config_.train.init_from);
  const fs::path started_from = past ? past->run : fs::path(config_.train.init_from);
  const std::pair<fs::path, const char*> in_use[] = {{fs::current_path(ignored), "the current folder"},
                                                     {config_.file_name, "the config file"},
                                                     {config_.data.path, "data.path"},
                                                     {config_.data.tokenizer_file, "data.tokenizer_file"},
                                                     {started_from, "train.init_from"}};
  for (const auto& [path, what] : in_use) {
    if (!path.empty() && is_inside(path, path_)) {
      refuse(fmt::format("{}, which is not moved aside, since {} is in it", instead, what));
    }
  }
  fs::path aside;
  for (int number = 1; aside.empty() || !rename_to_free(path_, aside); ++number) {
    aside = path_.string() + "." + std::to_string(number);
    if (fs::exists(fs::symlink_status(aside))) aside.clear();
  }
  notices_.push_back("the earlier run was moved to " + aside.string());
}

// heed creates regular files only, so anything else is foreign, even in a marked folder.
void RunFolder::require_own_files() const {
  const std::optional<fs::path> odd = find_not_plain(path_);
  require<CheckpointError>(!odd,
                           "train.run_dir: {} is a link or a folder, heed needs a regular file there (a folder for "
                           "checkpoints): move it away, or {}",
                           odd.value_or("").string(), kChoose);
  const fs::path summary = path_ / "summary.json";
  require<CheckpointError>(may_replace_summary(summary),
                           "train.run_dir: {} is not a file that heed wrote: move it away, or {}", summary.string(),
                           kChoose);
  const fs::path events = path_ / kTensorBoardFolder;
  const fs::file_type type = fs::symlink_status(events).type();
  require<CheckpointError>(
      !config_.train.tensorboard || type == fs::file_type::directory || type == fs::file_type::not_found,
      "train.tensorboard: {} is not a folder, heed needs that name for its event files: move it away, set "
      "train.tensorboard=false, or {}",
      events.string(), kChoose);
}

void RunFolder::begin(std::optional<int64_t> resumed_step) {
  log_.emplace(path_, config_, resumed_step);
  if (log_->last_step() < resumed_step.value_or(0)) {
    notices_.push_back(
        fmt::format("metrics.csv has no rows of the steps {} to {}", log_->last_step() + 1, *resumed_step));
  }
  if (may_replace_config(path_ / "config.toml")) {
    write_file(path_ / "config.toml", sign_config(config_to_toml(config_)));
  } else {
    notices_.push_back("config.toml was edited and stays as it is; the resolved config is in the checkpoints");
  }
  write(Summary{.steps = resumed_step.value_or(0)});
}

void RunFolder::write(const Summary& summary) const {
  write_file(path_ / "summary.json", summary_to_json(summary, config_));
}

std::vector<std::string> RunFolder::take_notices() { return std::exchange(notices_, {}); }

}  // namespace heed::train
