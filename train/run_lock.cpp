#include "train/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <string>
#include <system_error>

#include "autograd/core/check.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

void require_success(bool success, const fs::path& folder) {
  const int error = errno;
  require<ConfigError>(success, "train.run_dir: cannot lock {}: {}; choose another folder with train.run_dir=…",
                       (folder / "lock").string(), std::generic_category().message(error));
}

// Who has written it: "process 123".
std::string holder(int file) {
  char number[20];
  const ssize_t length = retry_interrupted([&] { return ::pread(file, number, sizeof(number), 0); });
  return length > 0 ? "process " + std::string(number, static_cast<size_t>(length)) : "another process";
}

bool is_same_file(int file, const fs::path& path) {
  struct stat held {
  }, named{};
  return ::fstat(file, &held) == 0 && ::stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

RunLock::RunLock(const fs::path& folder)
    : file_(retry_interrupted([&] { return ::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); })) {
  require_success(file_.number() >= 0, folder);
  const bool locked = retry_interrupted([&] { return ::flock(file_.number(), LOCK_EX | LOCK_NB); }) == 0;
  require<ConfigError>(locked || errno != EWOULDBLOCK,
                       "train.run_dir: {} trains in {} already; wait for its end or choose another folder with "
                       "train.run_dir=…",
                       holder(file_.number()), folder.string());
  require_success(locked, folder);
  // A process that has just moved the earlier run aside has taken the file along.
  require<ConfigError>(is_same_file(file_.number(), folder / "lock"),
                       "train.run_dir: another process is about to train in {}", folder.string());
  const std::string number = std::to_string(::getpid());
  require_success(::ftruncate(file_.number(), 0) == 0, folder);
  require_success(::pwrite(file_.number(), number.data(), number.size(), 0) > 0, folder);
}

}  // namespace heed::train
