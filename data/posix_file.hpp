// A file by its descriptor, where what the disk says must be heard: every call checks, and names file and reason.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heed::data {

// The absolute path in quotes, control characters escaped: how error texts name a file.
std::string quoted_path(const std::string& path);

class PosixFile {
 public:
  enum class Access { read, read_write, create };  // create: must not exist yet

  // Opens a regular file. Every function throws DataError: `"/a/b.txt" cannot be opened: No such file or directory`.
  PosixFile(const std::string& path, Access access);
  ~PosixFile();
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;

  const std::string& name() const { return name_; }  // quoted_path()
  int64_t size() const;

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
