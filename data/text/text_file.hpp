// A text on disk, read in pieces: no more of it than one piece is ever in memory.
#pragma once

#include <functional>

#include "data/io/posix_file.hpp"
#include "data/text/text_form.hpp"

namespace heed::data {

// Calls back while a long text is worked on: what is being done, bytes done, bytes in all.
using Progress = std::function<void(const char* phase, int64_t done_bytes, int64_t total_bytes)>;

class TextFile {
 public:
  // Throws DataError naming the absolute path and data.path: not there, not a file, not readable.
  explicit TextFile(const std::string& path);

  int64_t size() const { return stamp_.bytes; }  // when it was opened
  const std::string& name() const { return file_.name(); }

  // Throws DataError if the file has become shorter, or cannot be read.
  void read(int64_t offset, std::span<char> bytes) const { file_.read(offset, bytes); }

  // Throws DataError if the file was written to since it was opened, unless it only grew.
  void require_unchanged() const;

 private:
  PosixFile file_;
  FileStamp stamp_;
};

struct TextPiece {
  std::string_view text;  // in the form asked for
  std::string_view file;  // the bytes of the file that were read for it: together with those of the others, all of them
  bool is_last = false;   // there is no next one, all must be taken
  int64_t end = 0;        // bytes of the file that have been read
};

// Goes through the file from its first byte to its last. `use` is given text and returns how many of its bytes it took;
// those left come again at the beginning of the next piece. Gives what the form changed (TextNormalizer::changes()).
// Throws DataError if the file was written to since it was opened, unless it only grew.
using UsePiece = std::function<int64_t(const TextPiece& piece)>;
std::string for_each_piece(const TextFile& file, TextForm form, const UsePiece& use);

}  // namespace heed::data
