#include "train/run/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <string>
#include <system_error>

#include "autograd/core/check.hpp"
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
  const ssize_t length = retry_interrupted([&] { return ::pread(file, number, sizeof(number), 0); });
  return length > 0 ? "process " + std::string(number, static_cast<size_t>(length)) : "another process";
}

bool is_same_file(int file, const fs::path& path) {
  struct stat held {
  }, named{};
  return ::fstat(file, &held) == 0 && ::lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

}  // namespace

RunLock::RunLock(const fs::path& folder) {
  const fs::path path = lock_path(folder);
  // heed creates a regular file: do not follow a symbolic link, and do not block on a FIFO.
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  file_ = Descriptor(retry_interrupted([&] { return ::open(path.c_str(), flags, 0666); }));
  require_success(file_.number() >= 0, folder);
  const bool locked = retry_interrupted([&] { return ::flock(file_.number(), LOCK_EX | LOCK_NB); }) == 0;
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

}  // namespace heed::train
