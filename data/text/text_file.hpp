// A text file on disk, read in chunks: only about one chunk at a time is in memory.
#pragma once

#include <functional>

#include "data/io/posix_file.hpp"
#include "data/text/text_form.hpp"

namespace heed::data {

// Progress callback for a long text: the current phase, bytes done, total bytes.
using Progress = std::function<void(const char* phase, int64_t done_bytes, int64_t total_bytes)>;

class TextFile {
 public:
  // Throws DataError with the absolute path and the key data.path if the file does not exist, is not a regular file, or
  // cannot be read.
  explicit TextFile(const std::string& path);

  int64_t size() const { return stamp_.bytes; }  // when the file was opened
  const std::string& name() const { return file_.name(); }

  // Throws DataError if the file has become shorter, or cannot be read.
  void read(int64_t offset, std::span<char> bytes) const { file_.read(offset, bytes); }

  // Throws DataError if the file was modified since it was opened, unless it has grown.
  void require_unchanged() const;

 private:
  PosixFile file_;
  FileStamp stamp_;
};

struct TextChunk {
  std::string_view text;  // in the requested form
  std::string_view file;  // the bytes of the file read for this chunk; those of all chunks are the whole file
  bool is_last = false;   // no chunk follows: all of the text must be consumed
  int64_t end = 0;        // number of bytes of the file read so far
};

// Passes the file to `use` in chunks, from the first byte to the last. `use` returns the number of bytes of text that
// it has consumed; the rest is repeated at the start of the next chunk. Returns what the form changed
// (TextNormalizer::changes()). Throws DataError if the file was modified since it was opened, unless it has grown;
// ValueError if bytes at the end are not consumed.
using UsePiece = std::function<int64_t(const TextChunk& piece)>;
std::string for_each_chunk(const TextFile& file, TextForm form, const UsePiece& use);

}  // namespace heed::data
