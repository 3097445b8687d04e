// Files that appear atomically and durably: at any moment, also after a kill or a power failure, a file has its
// complete new content or is as it was before. Naming::reserve alone can leave an empty file after a kill.
//
// The bytes are written to a temporary file in the same directory and flushed to the disk. The temporary file is then
// renamed to the final name, and the directory is flushed. On any failure before the rename (no space, size limit, I/O
// error, no permission) the temporary file is removed.
//   write_file_durably()  replaces the file of that name: for the files of a run folder
//   NewFile               never replaces another file: for files that the user names
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "data/io/posix_file.hpp"

namespace heed::data {

// Writes `bytes` to the temporary file ".<name>.heed-<process id>" and replaces the file at path with it. On a failure
// before the rename the old file stays unchanged; if only the flush of the directory fails, the new file is already in
// place. Exceeding the size limit (ulimit -f) is such a failure, too: its signal SIGXFSZ does not end the process.
// The directory must exist. Calls are serialized within the process.
// Throws CheckpointError with only the reason: the caller adds the name of the file.
void write_file_durably(const std::filesystem::path& path, std::string_view bytes);

// The same for a file that is never in memory as a whole: `make` writes its parts, in any order. file_bytes: the length
// of the file, for error messages. What `make` throws is thrown on, and the old file stays unchanged.
using WriteAt = std::function<void(int64_t offset, std::string_view bytes)>;
void write_file_durably(const std::filesystem::path& path, int64_t file_bytes,
                        const std::function<void(const WriteAt& write)>& make);

// The name of the temporary file for a file of this name.
std::string temporary_name(std::string_view file_name);
// Whether this is the name of a temporary file that a killed write_file_durably() left.
bool is_temporary_name(std::string_view file_name);

// Removes the file at `path` when it goes out of scope, unless keep() was called.
class TemporaryFile {
 public:
  // remove: SIGINT, SIGTERM and SIGHUP, too, remove it before they end the process, unless they are ignored or handled
  // elsewhere; at most 16 files at a time.
  enum class OnSignal { leave, remove };

  TemporaryFile(std::string path, OnSignal on_signal);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void keep() { kept_ = true; }

 private:
  std::string path_;
  OnSignal on_signal_;
  bool kept_ = false;
};

// The first bytes of a NewFile until its writer overwrites them.
inline constexpr std::string_view kUnfinishedMark = "heed unfinished\n";

// A new file, written as `<path>.tmp-XXXXXX`, which stays locked while the NewFile exists. SIGINT, SIGTERM and SIGHUP
// remove it, see TemporaryFile. The next NewFile of the same path removes the files of killed processes: only files
// with such a name that start with a mark of heed (or with zeros, if the mark is not written yet) and that no process
// on any machine has locked.
class NewFile {
 public:
  // Creates the temporary file, with kUnfinishedMark as its content. Throws DataError with the path and the reason.
  // It is removed unless commit() succeeds.
  explicit NewFile(std::string path);

  // The path to write to. Error messages use the final path instead.
  const std::string& working_path() const { return working_path_; }

  // Flushes the file to the disk, renames it to the final path and flushes the directory. Throws DataError if a file of
  // that name exists by now (it stays unchanged), or if the rename fails.
  void commit();

 private:
  std::string path_;
  std::string working_path_;
  PosixFile file_;
  std::optional<TemporaryFile> temporary_;
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
