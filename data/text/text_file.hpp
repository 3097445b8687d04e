// A text file on disk, read in chunks: only about one chunk at a time is in memory. Byte order marks and line endings
// can be normalized before the text is tokenized.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "data/io/posix_file.hpp"
#include "data/text/tokenizer.hpp"

namespace heed::data {

// How a text is normalized:
//   bytes  unchanged
//   text   without a byte order mark (EF BB BF) at the very start, and without carriage returns directly before a line
//          feed: lines end in a line feed alone
//   lines  as text, and without carriage returns at the end of the file: they end its last line
enum class TextForm { bytes, text, lines };

// The form in which such a tokenizer reads a text: lines if it has an end token; otherwise bytes for byte, whose tokens
// are the bytes of the file, and text for char, bpe and file.
TextForm text_form(TokenizerKind kind, bool has_end_token);

// Normalizes a text that is added in chunks. Chunks may be split at any byte, except inside the byte order mark.
class TextNormalizer {
 public:
  // at_begin: the first chunk is the start of the file.
  explicit TextNormalizer(TextForm form, bool at_begin = true) : form_(form), at_begin_(at_begin) {}

  // Appends the normalized chunk `piece` to text. is_last: the file ends with this chunk.
  void add(std::string_view piece, bool is_last, std::string& text);

  // "byte order mark removed, 12 CRLF line endings converted to LF"; empty if nothing was changed.
  std::string changes() const;

 private:
  TextForm form_;
  bool at_begin_;
  bool had_mark_ = false;
  int64_t line_ends_ = 0;
  size_t held_ = 0;  // carriage returns at the end of the chunks so far
};

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
