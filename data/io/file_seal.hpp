// A checksum of a file inside it, for files whose format trusts what it reads: HDF5 may crash or hang on damaged
// metadata (1.10 does), so it must see only bytes that have been verified. Bytes that cannot harm, such as the elements
// of a large dataset, may be left out, so that gigabytes need not be read first.
//
// File: seal block of 65536 bytes | body. HDF5 itself skips the block: it is its user block. So every HDF5 tool opens
// the file, and the block stays where it is when one opens the file for writing and closes it again.
//   0    64 bytes  header: magic (16), bytes of the file, number of ranges, checksum of the body outside the ranges,
//                  checksum of the block behind the header, zero, checksum of the header before it, u64 each
//   64   the ranges left out: (begin, end) of each as u64, counted from the beginning of the file; then zeros
// The last byte of the magic is the version of the format, so that a file of another version is told from a damaged
// one. It guards against damage (truncation, flipped bytes, another format), not against intent.
//
// Version 2 had the same header and ranges at the end, as a footer: body | ranges | header, and counted the bytes of
// the body in place of those of the file. HDF5 cuts that off when it opens such a file for writing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/posix_file.hpp"

namespace heed::data {

// Bytes begin … end - 1.
struct FileRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline constexpr int64_t kSealMagicBytes = 16, kSealBlockBytes = 65536;

// The magics of the current version and of version 2, and what error texts call such a file.
struct SealKind {
  std::string_view magic;
  std::string_view footer_magic;
  const char* name;
};

// Writes the block of a file that begins with kSealBlockBytes to spare. left_out: rising, without overlap, inside the
// body; neighbours are joined. Throws DataError if the file cannot be written, or if there are more than 4092 ranges;
// ValueError for other ranges or a magic of another length.
void seal_file(PosixFile& file, std::string_view magic, const std::vector<FileRange>& left_out);

// Throws DataError naming the file unless it has the block, or the footer of version 2, and is as it was sealed, the
// ranges left out aside. Gives the bytes of the block: 0 for version 2.
int64_t check_seal(const PosixFile& file, const SealKind& kind);

}  // namespace heed::data
