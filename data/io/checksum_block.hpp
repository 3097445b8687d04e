// A checksum block inside a file, for formats whose reader trusts its input. HDF5 may crash or hang on damaged metadata
// (1.10 does), so it may only read bytes that have been verified. Byte ranges that can do no harm, such as the elements
// of a large dataset, may be excluded, so that gigabytes need not be read first.
//
// File layout: checksum block of 65536 bytes | body. The block is HDF5's user block, which HDF5 skips. Every HDF5 tool
// therefore opens the file, and the block is kept when a tool opens the file for writing and closes it again.
//   0    64 bytes  header: magic (16 bytes), then as u64: file size in bytes, number of ranges, checksum of the body
//                  outside the ranges, checksum of the block after the header, zero, checksum of the header before it
//   64   the excluded ranges: (begin, end) of each as u64, offsets from the start of the file; then zeros
// The last byte of the magic is the format version, which distinguishes a file of another version from a damaged one.
// The block detects damage (truncation, flipped bytes, another format), not deliberate changes.
//
// Version 2 stored the header and the ranges as a footer: body | ranges | header. Its header contained the size of the
// body instead of the file size. HDF5 truncates the footer when it opens such a file for writing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/io/posix_file.hpp"

namespace heed::data {

// Half-open range of bytes: [begin, end).
struct FileRange {
  int64_t begin = 0;
  int64_t end = 0;
};

inline constexpr int64_t kSealMagicBytes = 16, kSealBlockBytes = 65536;

// The magics of the current version and of version 2, and the name of such a file in error messages.
struct SealKind {
  std::string_view magic;
  std::string_view footer_magic;
  const char* name;
};

// Writes the checksum block into the first kSealBlockBytes bytes of the file, which must be reserved for it. left_out:
// the excluded ranges, sorted, without overlap and inside the body; adjacent ranges are merged. Throws DataError if the
// file cannot be written or has more than 4092 ranges; ValueError if the ranges are not as required, the magic has
// another length, or the file is shorter than the block.
void write_checksum_block(PosixFile& file, std::string_view magic, const std::vector<FileRange>& left_out);

// Verifies all bytes outside the excluded ranges. Throws DataError with the name of the file if it has neither the
// block nor the footer of version 2, is of another version, or has changed. Returns the size of the block in bytes: 0
// for version 2.
int64_t verify_checksum_block(const PosixFile& file, const SealKind& kind);

}  // namespace heed::data
