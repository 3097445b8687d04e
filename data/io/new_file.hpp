// A new file that appears completely or not at all, and never replaces another file.
//
// It is written as `<path>.tmp-XXXXXX` and stays locked while the NewFile exists. SIGINT, SIGTERM and SIGHUP remove it
// before they end the process, unless they are ignored or handled elsewhere. The next NewFile of the same path removes
// the files of killed processes: only files with such a name that start with a mark of heed (or with zeros, if the mark
// is not written yet) and that no process on any machine has locked.
#pragma once

#include <string>
#include <string_view>

#include "data/io/posix_file.hpp"

namespace heed::data {

// The first bytes of the file until its writer overwrites them.
inline constexpr std::string_view kUnfinishedMark = "heed unfinished\n";

class NewFile {
 public:
  // Creates the temporary file, with kUnfinishedMark as its content. Throws DataError with the path and the reason.
  explicit NewFile(std::string path);
  // Removes the file unless commit() succeeded.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // The path to write to. Error messages use the final path instead.
  const std::string& working_path() const { return working_path_; }

  // Flushes the file to the disk, renames it to the final path and flushes the directory. Throws DataError if a file of
  // that name exists by now (it stays unchanged), or if the rename fails.
  void commit();

 private:
  std::string path_;
  std::string working_path_;
  PosixFile file_;
  bool committed_ = false;
};

// How a file is renamed to a name that must not exist yet.
//   rename   atomically (renameat2 with RENAME_NOREPLACE)
//   link     creates a hard link with the new name, then removes the old name
//   reserve  creates an empty file with the new name, then replaces it: for file systems without the other two
enum class Naming { rename, link, reserve };

// Returns false if the file system does not support this method. Throws DataError if the name exists, or on other
// errors.
bool give_name(const std::string& from, const std::string& to, Naming naming);

}  // namespace heed::data
