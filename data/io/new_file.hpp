// A file that appears whole or not at all, and never in the place of another.
//
// It is written as `<path>.tmp-XXXXXX`, locked as long as its process lives. SIGINT, SIGTERM and SIGHUP, where nothing
// else handles them, remove it before they end the process. What a process that was killed left there is removed by the
// next NewFile of the same path: only files of such a name that begin with a mark of heed, or with zeros as before the
// mark is written, and that no process on any machine has locked.
#pragma once

#include <string>
#include <string_view>

#include "data/io/posix_file.hpp"

namespace heed::data {

// What the file begins with until it is complete.
inline constexpr std::string_view kUnfinishedMark = "heed unfinished\n";

class NewFile {
 public:
  // Creates the file; it holds kUnfinishedMark. Throws DataError naming path and the reason.
  explicit NewFile(std::string path);
  // Removes the file, if commit() has not been.
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  // Where to write it. Not for error texts: those name the final path.
  const std::string& working_path() const { return working_path_; }

  // Brings the file to the disk, gives it its name, and brings that to the disk. Throws DataError where there is a file
  // of that name by now, which stays as it is, or where the name cannot be given.
  void commit();

 private:
  std::string path_;
  std::string working_path_;
  PosixFile file_;
  bool committed_ = false;
};

// How a file gets another name, which must be free.
//   rename   in one step (renameat2 with RENAME_NOREPLACE)
//   link     by a second name, then the first is removed
//   reserve  by an empty file of that name, which is then replaced: for file systems that have neither
enum class Naming { rename, link, reserve };

// False where the file system does not have this way. Throws DataError where the name is taken, and for other errors.
bool give_name(const std::string& from, const std::string& to, Naming naming);

}  // namespace heed::data
