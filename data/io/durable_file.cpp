#include "data/io/durable_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>

#include "autograd/core/check.hpp"
#include "data/io/descriptor.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".heed-";
constexpr size_t kBytesPerWrite = size_t{1} << 30;

[[noreturn]] void fail(int error, std::string_view action) {
  throw CheckpointError(fmt::format("{}: {}", action, std::generic_category().message(error)));
}

void require_success(bool success, std::string_view action) {
  if (!success) fail(errno, action);
}

// Removes the file unless it was renamed.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) {}
  ~Temporary() {
    if (!renamed_) ::unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  void rename_to(const fs::path& path) {
    require_success(::rename(path_.c_str(), path.c_str()) == 0, "cannot take the place of the old file");
    renamed_ = true;
  }

 private:
  fs::path path_;
  bool renamed_ = false;
};

// Blocks SIGXFSZ, which a write beyond the file size limit raises in the writing thread, and discards it afterwards.
class SizeSignalHeldBack {
 public:
  SizeSignalHeldBack() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~SizeSignalHeldBack() {
    const timespec no_wait{};
    while (sigtimedwait(&signal_, nullptr, &no_wait) == SIGXFSZ) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SizeSignalHeldBack(const SizeSignalHeldBack&) = delete;
  SizeSignalHeldBack& operator=(const SizeSignalHeldBack&) = delete;

 private:
  sigset_t signal_{}, before_{};
};

void write_all(int file, std::string_view bytes) {
  const size_t total = bytes.size();
  while (!bytes.empty()) {
    const ssize_t written =
        retry_interrupted([&] { return ::write(file, bytes.data(), std::min(bytes.size(), kBytesPerWrite)); });
    if (written <= 0) {
      const int error = written < 0 ? errno : EIO;
      fail(error, fmt::format("the last {} of {} bytes cannot be written", bytes.size(), total));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void flush(int file, std::string_view action) {
  require_success(retry_interrupted([&] { return ::fsync(file); }) == 0, action);
}

void flush_folder(const fs::path& folder) {
  const Descriptor descriptor(
      retry_interrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  require_success(descriptor.number() >= 0, "the new file is in place, but its folder cannot be opened to flush it");
  const bool flushed = retry_interrupted([&] { return ::fsync(descriptor.number()); }) == 0;
  // Some network file systems cannot flush directories.
  require_success(flushed || errno == EINVAL, "the new file is in place, but its folder cannot be flushed");
}

}  // namespace

void write_file_durably(const fs::path& path, std::string_view bytes) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const SizeSignalHeldBack no_size_signal;

  const fs::path temporary_path = path.parent_path() / temporary_name(path.filename().string());
  ::unlink(temporary_path.c_str());  // left by a killed process with the same id
  Descriptor file(
      retry_interrupted([&] { return ::open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
  require_success(file.number() >= 0, "no new file can be made in its folder");
  Temporary temporary(temporary_path);
  write_all(file.number(), bytes);
  flush(file.number(), "cannot flush it to the disk");
  require_success(file.close(), "cannot close it");
  temporary.rename_to(path);
  flush_folder(path.has_parent_path() ? path.parent_path() : fs::path("."));
}

std::string temporary_name(std::string_view file_name) {
  return fmt::format(".{}{}{}", file_name, kTemporaryMark, ::getpid());
}

bool is_temporary_name(std::string_view file_name) {
  const size_t mark = file_name.rfind(kTemporaryMark);
  if (!file_name.starts_with('.') || mark == std::string_view::npos || mark < 2) return false;
  const std::string_view process = file_name.substr(mark + kTemporaryMark.size());
  return !process.empty() && process.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace heed::train
