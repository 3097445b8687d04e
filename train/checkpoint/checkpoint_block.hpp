// The header of a checkpoint: its first 512 bytes, which are the HDF5 user block that HDF5 skips.
//
// Little-endian; bytes that are not listed are zero:
//   0    16 bytes  magic: "heed checkpoint\n"
//   16   u64       format version, 1
//   24   u64       number of bytes after the block: the HDF5 file
//   32   u64       checksum of the bytes after the block
//   504  u64       checksum of bytes 0 to 503
// Later versions keep the size of the block and the positions of the magic, the version and the last checksum.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heed::train {

inline constexpr int64_t kBlockBytes = 512;
// The magic: the first bytes of every checkpoint, even if the rest is damaged.
inline constexpr std::string_view kCheckpointMark = "heed checkpoint\n";

struct CheckpointBlock {
  int64_t content_bytes = 0;
  uint64_t content_checksum = 0;
};

std::array<char, kBlockBytes> encode_block(const CheckpointBlock& block);

// start: the first kBlockBytes bytes of a file, or the whole of a shorter file.
// Throws CheckpointError with only the reason if they are not a complete, undamaged block of this version, or if the
// file size differs from the size in the block.
CheckpointBlock decode_block(std::string_view start, int64_t file_bytes);

// Throws CheckpointError if `actual`, the checksum of the bytes after the block, differs from the one in the block.
void require_checksum(const CheckpointBlock& block, uint64_t actual);

}  // namespace heed::train
