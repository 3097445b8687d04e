// A POSIX file: every call checks for errors and reports them with the file and the reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/io/descriptor.hpp"
#include "data/io/utf8.hpp"

namespace heed::data {

// The absolute path in quotes, as error messages name a file.
std::string quoted_path(const std::string& path);

// File status; times in nanoseconds since 1970. A later write changes `modified` and `changed`, unless it happens
// within the time resolution of the file system (up to two seconds).
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified = 0;  // of the content; programs can set it back
  int64_t changed = 0;   // of the content, the name, the permissions …

  bool operator==(const FileStamp&) const = default;
};

// Status of an open file. Throws DataError.
FileStamp stamp_of(int descriptor, const std::string& name);

// Status of the file at path, symbolic links followed; nullopt if there is none or it cannot be examined.
std::optional<FileStamp> stamp_at(const std::string& path);

class PosixFile {
 public:
  // create and open_or_create: for reading and writing; with create, the file must not exist yet.
  enum class Access { read, read_write, create, open_or_create };

  // Opens a regular file. Every function throws DataError: `"/a/b.txt" cannot be opened: No such file or directory`.
  PosixFile(const std::string& path, Access access) : PosixFile(path, access, quoted_path(path)) {}
  // name: the name of the file in error messages.
  PosixFile(const std::string& path, Access access, std::string name);

  const std::string& name() const { return name_; }
  int64_t size() const { return stamp().bytes; }
  FileStamp stamp() const { return stamp_of(descriptor(), name_); }
  int descriptor() const { return descriptor_.number(); }

  // Reads or writes all of `bytes`, or throws; reading also throws if the file ends earlier.
  void read(int64_t offset, std::span<char> bytes) const;
  void write(int64_t offset, std::string_view bytes);

  // Sets the file size; also frees space that was reserved after the end.
  void truncate(int64_t size);

  // Reserves disk space up to the byte before `end`; see reserve_space_up_to().
  void reserve(int64_t end);

  // Flushes the file to the disk (fsync).
  void sync();

 private:
  std::string name_;
  Descriptor descriptor_;
};

// Reserves disk space, so that the file can be written up to the byte before `end`; the file size does not change. If
// the file system cannot reserve space, only the free space is checked. Throws DataError if the disk or a limit of the
// process does not allow it. name: the name of the file in error messages.
void reserve_space_up_to(int descriptor, int64_t end, const std::string& name);

}  // namespace heed::data
