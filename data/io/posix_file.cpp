#include "data/io/posix_file.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "autograd/core/check.hpp"
#include "data/io/utf8.hpp"

namespace heed::data {

namespace {

void require_done(bool done, const std::string& name, const char* what) {
  require<DataError>(done, "{} cannot be {}: {}", name, what, std::strerror(errno));
}

int flags_of(PosixFile::Access access) {
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  if (access == PosixFile::Access::read) return O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  const int if_missing = access == PosixFile::Access::create           ? O_CREAT | O_EXCL
                         : access == PosixFile::Access::open_or_create ? O_CREAT
                                                                       : 0;
  return O_RDWR | O_CLOEXEC | if_missing;
}

FileStamp to_stamp(const struct stat& status) {
  const auto nanoseconds = [](const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = status.st_size,
          .modified = nanoseconds(status.st_mtim),
          .changed = nanoseconds(status.st_ctim)};
}

const char* kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) return "a pipe";
  return "a device";
}

}  // namespace

std::string quoted_path(const std::string& path) {
  std::error_code ignored;
  return quoted_text(std::filesystem::absolute(path, ignored).lexically_normal().string());
}

FileStamp stamp_of(int descriptor, const std::string& name) {
  struct stat status {};
  require_done(::fstat(descriptor, &status) == 0, name, "examined");
  return to_stamp(status);
}

std::optional<FileStamp> stamp_at(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return to_stamp(status);
}

PosixFile::PosixFile(const std::string& path, Access access, std::string name)
    : name_(std::move(name)),
      descriptor_(retry_interrupted([&] { return ::open(path.c_str(), flags_of(access), 0666); })) {
  require_done(descriptor() >= 0, name_, access == Access::create ? "created" : "opened");
  struct stat status {};
  if (::fstat(descriptor(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw DataError(fmt::format("{} is {}, it must be a file on disk", name_, kind_of(status)));
  }
}

void PosixFile::read(int64_t offset, std::span<char> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = retry_interrupted([&] { return ::pread(descriptor(), bytes.data(), bytes.size(), offset); });
    require_done(count >= 0, name_, "read");
    require<DataError>(count > 0, "{} ends at byte {}, {} more were expected", name_, offset, bytes.size());
    bytes = bytes.subspan(count);
    offset += count;
  }
}

void PosixFile::write(int64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = retry_interrupted([&] { return ::pwrite(descriptor(), bytes.data(), bytes.size(), offset); });
    require_done(count > 0, name_, "written");
    bytes.remove_prefix(count);
    offset += count;
  }
}

void PosixFile::truncate(int64_t size) { require_done(::ftruncate(descriptor(), size) == 0, name_, "truncated"); }

void PosixFile::reserve(int64_t end) { reserve_space_up_to(descriptor(), end, name_); }

void PosixFile::sync() {
  require_done(retry_interrupted([&] { return ::fsync(descriptor()); }) == 0, name_, "written to disk");
}

void reserve_space_up_to(int descriptor, int64_t end, const std::string& name) {
  struct stat status {};
  require_done(::fstat(descriptor, &status) == 0, name, "examined");
  struct rlimit limit {};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  require<DataError>(!limited || static_cast<uint64_t>(end) <= limit.rlim_cur,
                     "{} cannot grow: files may have {} bytes here (ulimit -f)", name, limit.rlim_cur);
  const int64_t bytes = end - status.st_size;
  if (bytes <= 0 || ::fallocate(descriptor, FALLOC_FL_KEEP_SIZE, status.st_size, bytes) == 0) return;
  const int error = errno;
  const bool unknown = error == EOPNOTSUPP || error == ENOSYS || error == EINTR;
  require<DataError>(unknown, "{} cannot grow by {} bytes: {}", name, bytes, std::strerror(error));
  struct statvfs space {};
  require<DataError>(
      ::fstatvfs(descriptor, &space) != 0 || space.f_bavail >= static_cast<uint64_t>(bytes) / space.f_frsize,
      "{} cannot grow by {} bytes: {}", name, bytes, std::strerror(ENOSPC));
}

}  // namespace heed::data
