// A seal at the end of a file, for files whose format trusts what it reads: HDF5 may crash or hang on damaged metadata
// (1.10 does), so it must see only bytes that have been verified. Bytes that cannot harm, such as the elements of a
// large dataset, may be left out, so that gigabytes need not be read first.
//
// File: body | table | footer.
//   table   (begin, end) of each range of the body left out, u64 each
//   footer  64 bytes: magic (16), body bytes, number of ranges, checksum of the body outside the ranges, checksum of
//           the table, zero, checksum of the footer before it, u64 each
// The last byte of the magic is the version of the format, so that a file of another version is told from a damaged
// one. HDF5 does not mind bytes behind its own, so every HDF5 tool still opens the file. It guards against damage
// (truncation, flipped bytes, another format), not against intent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heed::data {

// Bytes begin … end - 1.
struct FileRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline constexpr int64_t kSealMagicBytes = 16;

// Appends the seal to a file that has none. left_out: rising, without overlap, inside the file.
// Throws DataError if the file cannot be written, ValueError for such ranges or a magic of another length.
void seal_file(const std::string& path, std::string_view magic, const std::vector<FileRange>& left_out);

// Throws DataError naming the file unless it carries the seal and is as it was sealed, the ranges left out aside.
// kind: what the file should be, for the error text.
void check_seal(const std::string& path, std::string_view magic, const char* kind);

}  // namespace heed::data
