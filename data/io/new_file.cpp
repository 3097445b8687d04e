#include "data/io/new_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "autograd/core/check.hpp"

namespace heed::data {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporaryMark = ".tmp-";
constexpr size_t kRandomPlaces = 6;

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
  const std::string start = fs::path(path).filename().string() + std::string(kTemporaryMark);
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
  return fmt::format("{}{}{:0{}x}", path, kTemporaryMark, std::random_device()() & 0xFFFFFF, kRandomPlaces);
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

bool reserve_name(const std::string& from, const std::string& to) {
  const int descriptor = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) refuse_name(to, errno);
  const FileStamp reserved = stamp_of(descriptor, quoted_path(to));
  ::close(descriptor);
  const std::optional<FileStamp> now = stamp_at(to);
  // Another program may have replaced the file in the meantime.
  if (!now || now->device != reserved.device || now->inode != reserved.inode || now->bytes > 0) refuse_name(to, EEXIST);
  if (std::rename(from.c_str(), to.c_str()) != 0) refuse_name(to, errno);
  return true;
}

}  // namespace

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
  remove_on_signal(working_path_.c_str());
  try {
    remove_leftovers(path_);
    file_.write(0, kUnfinishedMark);
  } catch (...) {
    keep_on_signal(working_path_.c_str());
    ::unlink(working_path_.c_str());
    throw;
  }
}

NewFile::~NewFile() {
  keep_on_signal(working_path_.c_str());
  if (!committed_) ::unlink(working_path_.c_str());
}

void NewFile::commit() {
  file_.sync();
  give_name(working_path_, path_, Naming::rename) || give_name(working_path_, path_, Naming::link) ||
      give_name(working_path_, path_, Naming::reserve);
  committed_ = true;
  const int descriptor = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems cannot flush a directory; the file itself is safe by now.
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

}  // namespace heed::data
