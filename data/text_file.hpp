// A text on disk, read in pieces: no more of it than one piece is ever in memory.
#pragma once

#include <functional>

#include "data/posix_file.hpp"

namespace heed::data {

// Calls back while a long text is worked on: what is being done, bytes done, bytes in all.
using Progress = std::function<void(const char* phase, int64_t done_bytes, int64_t total_bytes)>;

class TextFile {
 public:
  // Throws DataError naming the absolute path and data.path: not there, not a file, not readable.
  explicit TextFile(const std::string& path);

  int64_t size() const { return size_; }  // when it was opened
  const std::string& name() const { return file_.name(); }

  // Throws DataError if the file has become shorter, or cannot be read.
  void read(int64_t offset, std::span<char> bytes) const { file_.read(offset, bytes); }

 private:
  PosixFile file_;
  int64_t size_;
};

// Goes through the file from its first byte to its last. `use` is given text and returns how many of its bytes it took;
// those left come again at the beginning of the next piece. is_last: there is no next one, it must take all.
using UsePiece = std::function<int64_t(std::string_view text, bool is_last)>;
void for_each_piece(const TextFile& file, const UsePiece& use);

}  // namespace heed::data
