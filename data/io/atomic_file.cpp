#include "data/io/atomic_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>
#include <system_error>
#include <utility>

#include "autograd/core/check.hpp"
#include "data/io/descriptor.hpp"

namespace heed::data {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".heed-", kNewFileMark = ".tmp-";
constexpr size_t kRandomPlaces = 6;
constexpr size_t kBytesPerWrite = size_t{1} << 30;

[[noreturn]] void fail(int error, std::string_view action) {
  throw CheckpointError(fmt::format("{}: {}", action, std::generic_category().message(error)));
}

void require_success(bool success, std::string_view action) {
  if (!success) fail(errno, action);
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

void write_all(int file, int64_t offset, std::string_view bytes, int64_t file_bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        retry_interrupted([&] { return ::pwrite(file, bytes.data(), std::min(bytes.size(), kBytesPerWrite), offset); });
    if (written <= 0) {
      const int error = written < 0 ? errno : EIO;
      fail(error, fmt::format("the last {} of {} bytes cannot be written", file_bytes - offset, file_bytes));
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += written;
  }
}

// The files that a signal removes. Each string lives as long as it is listed.
constexpr size_t kMostFiles = 16;
std::atomic<const char*> files_to_remove[kMostFiles];

extern "C" void remove_files_and_end(int signal_number) {
  for (const auto& file : files_to_remove) {
    if (const char* path = file.load(); path != nullptr) ::unlink(path);
  }
  // The handler was reset (SA_RESETHAND): the signal ends the process when this function returns.
  ::raise(signal_number);
}

void remove_on_signal(const char* path) {
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    // Signals that the parent ignores, or that another part of the program handles, stay unchanged.
    if (::sigaction(signal_number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = remove_files_and_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal_number, &action, nullptr);
  }
  for (auto& file : files_to_remove) {
    const char* none = nullptr;
    if (file.compare_exchange_strong(none, path)) return;
  }
}

void keep_on_signal(const char* path) {
  for (auto& file : files_to_remove) {
    const char* expected = path;
    if (file.compare_exchange_strong(expected, nullptr)) return;
  }
}

fs::path folder_of(const std::string& path) { return fs::absolute(path).parent_path(); }

bool is_unsupported(int error) {
  return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EPERM || error == EMLINK;
}

[[noreturn]] void refuse_name(const std::string& path, int error) {
  require<DataError>(error != EEXIST,
                     "{} was made by another program in the meantime; it stays as it is, choose another name",
                     quoted_path(path));
  throw DataError(fmt::format("{} cannot be given its name: {}", quoted_path(path), std::strerror(error)));
}

// A lock of the open file description, not of the process; on a shared file system it also holds on other machines.
bool lock(int descriptor) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(descriptor, F_OFD_SETLK, &whole) == 0;
}

// Also true before the mark is completely written, and after HDF5 has truncated the file to create its own.
bool has_mark(const PosixFile& file) {
  constexpr std::string_view kCompleteMark = "heed token file";
  std::string start(std::min<size_t>(kUnfinishedMark.size(), static_cast<size_t>(file.size())), '\0');
  file.read(0, start);
  if (start.starts_with(kCompleteMark)) return true;
  start.erase(start.find_last_not_of('\0') + 1);
  return kUnfinishedMark.starts_with(start) || kCompleteMark.starts_with(start);
}

// Removes the files of dead processes that tried to create this path.
void remove_leftovers(const std::string& path) {
  const std::string start = fs::path(path).filename().string() + std::string(kNewFileMark);
  std::error_code unreadable;
  for (fs::directory_iterator entry(folder_of(path), unreadable), end; !unreadable && entry != end;
       entry.increment(unreadable)) {
    const std::string name = entry->path().filename().string();
    if (name.size() != start.size() + kRandomPlaces || !name.starts_with(start)) continue;
    if (name.find_first_not_of("0123456789abcdef", start.size()) != std::string::npos) continue;
    std::error_code gone;
    if (!fs::is_regular_file(fs::symlink_status(entry->path(), gone))) continue;
    try {
      const PosixFile file(entry->path().string(), PosixFile::Access::read_write);
      if (has_mark(file) && lock(file.descriptor())) ::unlink(entry->path().c_str());
    } catch (const DataError&) {
      // Not a file of heed, or removed in the meantime.
    }
  }
}

std::string temporary_path(const std::string& path) {
  return fmt::format("{}{}{:0{}x}", path, kNewFileMark, std::random_device()() & 0xFFFFFF, kRandomPlaces);
}

bool reserve_name(const std::string& from, const std::string& to) {
  const FileStamp reserved = [&] {
    const Descriptor descriptor(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (descriptor.number() < 0) refuse_name(to, errno);
    return stamp_of(descriptor.number(), quoted_path(to));
  }();
  const std::optional<FileStamp> now = stamp_at(to);
  // Another program may have replaced the file in the meantime.
  if (!now || now->device != reserved.device || now->inode != reserved.inode || now->bytes > 0) refuse_name(to, EEXIST);
  if (std::rename(from.c_str(), to.c_str()) != 0) refuse_name(to, errno);
  return true;
}

}  // namespace

TemporaryFile::TemporaryFile(std::string path, OnSignal on_signal) : path_(std::move(path)), on_signal_(on_signal) {
  if (on_signal_ == OnSignal::remove) remove_on_signal(path_.c_str());
}

TemporaryFile::~TemporaryFile() {
  if (on_signal_ == OnSignal::remove) keep_on_signal(path_.c_str());
  if (!kept_) ::unlink(path_.c_str());
}

void write_file_durably(const fs::path& path, std::string_view bytes) {
  write_file_durably(path, static_cast<int64_t>(bytes.size()), [&](const WriteAt& write) { write(0, bytes); });
}

void write_file_durably(const fs::path& path, int64_t file_bytes,
                        const std::function<void(const WriteAt& write)>& make) {
  static std::mutex one_at_a_time;
  const std::lock_guard guard(one_at_a_time);
  const SizeSignalHeldBack no_size_signal;

  const fs::path working_path = path.parent_path() / temporary_name(path.filename().string());
  ::unlink(working_path.c_str());  // left by a killed process with the same id
  Descriptor file(
      retry_interrupted([&] { return ::open(working_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }));
  require_success(file.number() >= 0, "no new file can be made in its folder");
  TemporaryFile temporary(working_path, TemporaryFile::OnSignal::leave);
  make([&](int64_t offset, std::string_view bytes) { write_all(file.number(), offset, bytes, file_bytes); });
  flush(file.number(), "cannot flush it to the disk");
  require_success(file.close(), "cannot close it");
  require_success(::rename(working_path.c_str(), path.c_str()) == 0, "cannot take the place of the old file");
  temporary.keep();
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

bool give_name(const std::string& from, const std::string& to, Naming naming) {
  if (naming == Naming::reserve) return reserve_name(from, to);
  const bool done = naming == Naming::rename
                        ? ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0
                        : ::link(from.c_str(), to.c_str()) == 0;
  if (!done) {
    if (is_unsupported(errno)) return false;
    refuse_name(to, errno);
  }
  if (naming == Naming::link) ::unlink(from.c_str());
  return true;
}

NewFile::NewFile(std::string path)
    : path_(std::move(path)),
      working_path_(temporary_path(path_)),
      file_(working_path_, PosixFile::Access::create, quoted_path(path_)) {
  lock(file_.descriptor());
  temporary_.emplace(working_path_, TemporaryFile::OnSignal::remove);
  remove_leftovers(path_);
  file_.write(0, kUnfinishedMark);
}

void NewFile::commit() {
  file_.sync();
  give_name(working_path_, path_, Naming::rename) || give_name(working_path_, path_, Naming::link) ||
      give_name(working_path_, path_, Naming::reserve);
  temporary_->keep();
  try {
    flush_folder(folder_of(path_));
  } catch (const CheckpointError&) {
    // The bytes are on the disk by now; after a power failure the name may be missing.
  }
}

}  // namespace heed::data
