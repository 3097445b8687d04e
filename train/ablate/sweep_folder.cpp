#include "train/ablate/sweep_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <sstream>

#include "autograd/core/check.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/descriptor.hpp"
#include "train/plot/arm_list.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kChoose = "choose another folder with run_dir=…";

std::string config_text(const Arm& arm) {
  Config config = arm.config;
  config.train.run_dir = arm.folder;  // each run sets its own
  return config_to_toml(config);
}

// The first line of `now` that `before` does not have in its place: "num_layers = 2, it is now num_layers = 1".
std::string first_difference(const std::string& before, const std::string& now) {
  std::istringstream old_lines(before), new_lines(now);
  std::string old_line, new_line;
  while (std::getline(old_lines, old_line)) {
    if (!std::getline(new_lines, new_line)) new_line = "nothing";
    if (old_line != new_line) return fmt::format("{}, now {}", old_line, new_line);
  }
  return "the new config has more keys";
}

// Nothing is in it, or only what a process that is about to mark it, or was killed then, has made.
bool is_new_folder(const fs::path& folder) {
  if (!fs::exists(folder)) return true;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename() != ".heed" || !entry.is_directory()) return false;
  }
  if (!fs::exists(folder / ".heed")) return true;
  for (const auto& entry : fs::directory_iterator(folder / ".heed")) {
    if (!data::is_temporary_name(entry.path().filename().string())) return false;
  }
  return true;
}

data::Descriptor open_lock_file(const fs::path& file) {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  data::Descriptor lock(data::retry_interrupted([&] { return ::open(file.c_str(), flags, 0666); }));
  require<ConfigError>(lock.number() >= 0, "run_dir: cannot open {}: {}", file.string(), std::strerror(errno));
  return lock;
}

std::string run_name(const Arm& arm, uint32_t seed) { return fmt::format("{}.seed-{}", arm.folder, seed); }

}  // namespace

SweepFolder::SweepFolder(const Sweep& sweep) : sweep_(sweep), path_(sweep.folder) {
  try {
    require_own();
    require_same_sweep();
    fs::create_directories(path_ / ".heed");
    if (!fs::exists(path_ / ".heed/ablation")) write(".heed/ablation", "a folder of heed ablate\n");
    for (const char* name : {".heed/locks", ".heed/failures", "configs", "logs", "runs"})
      fs::create_directories(path_ / name);
    write_arms();
    for (const Arm& arm : sweep_.arms) {
      if (!fs::exists(config_file(arm))) write("configs/" + arm.folder + ".toml", config_text(arm));
    }
  } catch (const fs::filesystem_error& error) {
    throw ConfigError(
        fmt::format("run_dir: {} cannot be used: {}; {}", path_.string(), error.code().message(), kChoose));
  }
}

void SweepFolder::write_arms() const {
  std::vector<ArmEntry> arms;
  for (const Arm& arm : sweep_.arms) arms.push_back({arm.folder, arm.name});
  write(kArmsFile, arms_text(arms));
}

void SweepFolder::require_own() const {
  require<ConfigError>(!fs::exists(path_) || fs::is_directory(path_), "run_dir: {} is a file, it must be a folder; {}",
                       path_.string(), kChoose);
  // In this order: a process that makes more entries has made the mark before.
  const bool is_new = is_new_folder(path_), is_marked = fs::is_regular_file(path_ / ".heed/ablation");
  require<ConfigError>(is_new || is_marked, "run_dir: {} is not empty and no folder of heed ablate; {}", path_.string(),
                       kChoose);
}

// By the files that are there: another process may be writing more of them.
void SweepFolder::require_same_sweep() const {
  if (!fs::exists(path_ / "configs")) return;
  for (const auto& entry : fs::directory_iterator(path_ / "configs")) {
    if (entry.path().extension() != ".toml") continue;
    const auto is_it = [&](const Arm& arm) { return config_file(arm) == entry.path(); };
    const auto arm = std::find_if(sweep_.arms.begin(), sweep_.arms.end(), is_it);
    require<ConfigError>(arm != sweep_.arms.end(), "run_dir: {} holds another sweep, with the arm {}; {}",
                         path_.string(), entry.path().stem().string(), kChoose);
    const std::string before = read_small_file(entry.path().string(), "config file"), now = config_text(*arm);
    require<ConfigError>(before == now, "run_dir: {} holds another sweep: arm \"{}\" had {}; {}", path_.string(),
                         arm->name, first_difference(before, now), kChoose);
  }
}

fs::path SweepFolder::run_folder(const Arm& arm, uint32_t seed) const {
  return path_ / "runs" / arm.folder / fmt::format("seed-{}", seed);
}

fs::path SweepFolder::log_file(const Arm& arm, uint32_t seed) const {
  return path_ / "logs" / (run_name(arm, seed) + ".txt");
}

std::optional<data::Descriptor> SweepFolder::lock_run(const Arm& arm, uint32_t seed) const {
  data::Descriptor lock = open_lock_file(path_ / ".heed/locks" / run_name(arm, seed));
  const bool locked = data::retry_interrupted([&] { return ::flock(lock.number(), LOCK_EX | LOCK_NB); }) == 0;
  if (!locked && errno == EWOULDBLOCK) return std::nullopt;
  return lock;
}

data::Descriptor SweepFolder::lock_results() const {
  data::Descriptor lock = open_lock_file(path_ / ".heed/results");
  data::retry_interrupted([&] { return ::flock(lock.number(), LOCK_EX); });
  return lock;
}

std::string SweepFolder::failure_file(const Arm& arm, uint32_t seed) const {
  return ".heed/failures/" + run_name(arm, seed);
}

void SweepFolder::note_failure(const Arm& arm, uint32_t seed, const std::string& reason) const {
  if (reason.empty())
    fs::remove(path_ / failure_file(arm, seed));
  else
    write(failure_file(arm, seed), reason);
}

std::optional<RunResult> SweepFolder::result(const Arm& arm, uint32_t seed) const {
  std::optional<RunResult> result;
  try {
    result = read_run(run_folder(arm, seed));
  } catch (const DataError& error) {
    result.emplace();
    result->summary.status = RunStatus::failed;
    result->summary.reason = fmt::format("{}; remove the folder of the run, and it is trained again", error.what());
  }
  const fs::path failure = path_ / failure_file(arm, seed);
  if ((result && result->is_final(arm.config)) || !fs::exists(failure)) return result;
  if (!result) result.emplace();
  result->summary.status = RunStatus::failed;
  result->summary.reason = read_small_file(failure.string(), "note");
  return result;
}

void SweepFolder::write(const std::string& name, std::string_view bytes) const {
  try {
    data::write_file_durably(path_ / name, bytes);
  } catch (const CheckpointError& error) {
    throw Error(fmt::format("cannot write {}: {}", (path_ / name).string(), error.what()));
  }
}

}  // namespace heed::train
