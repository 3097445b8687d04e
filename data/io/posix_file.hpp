// A file by its descriptor, where what the disk says must be heard: every call checks, and names file and reason.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/io/utf8.hpp"

namespace heed::data {

// The absolute path, quoted: how error texts name a file.
std::string quoted_path(const std::string& path);

// What the file system tells of a file; nanoseconds since 1970. Bytes that were written since then show in `modified`
// and `changed`, or not where they were written within the resolution of the file system's times (up to two seconds).
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t bytes = 0;
  int64_t modified = 0;  // the content; programs can set it back
  int64_t changed = 0;   // the content, the name, the rights …

  bool operator==(const FileStamp&) const = default;
};

// Of an open file. Throws DataError.
FileStamp stamp_of(int descriptor, const std::string& name);

// Of what the path names now, symbolic links followed; nullopt where it names nothing that can be examined.
std::optional<FileStamp> stamp_at(const std::string& path);

class PosixFile {
 public:
  // create: must not exist yet; open_or_create: to write, too.
  enum class Access { read, read_write, create, open_or_create };

  // Opens a regular file. Every function throws DataError: `"/a/b.txt" cannot be opened: No such file or directory`.
  PosixFile(const std::string& path, Access access) : PosixFile(path, access, quoted_path(path)) {}
  // name: what error texts call it.
  PosixFile(const std::string& path, Access access, std::string name);
  ~PosixFile();
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  const std::string& name() const { return name_; }
  int64_t size() const { return stamp().bytes; }
  FileStamp stamp() const { return stamp_of(descriptor_, name_); }
  int descriptor() const { return descriptor_; }

  // All of bytes, or an error: also if the file ends before.
  void read(int64_t offset, std::span<char> bytes) const;
  void write(int64_t offset, std::string_view bytes);

  // Sets the end of the file; also gives back space that was reserved behind it.
  void truncate(int64_t size);

  // Makes sure that the file can be written up to the byte before `end`; see reserve_space_up_to().
  void reserve(int64_t end);

  // Returns when the bytes are on the disk.
  void sync();

 private:
  std::string name_;
  int descriptor_;
};

// Makes sure that the file can be written up to the byte before `end`; its size stays as it is. Throws DataError where
// the disk or a limit of the process does not allow it. name: of the file, for the error text.
void reserve_space_up_to(int descriptor, int64_t end, const std::string& name);

}  // namespace heed::data
