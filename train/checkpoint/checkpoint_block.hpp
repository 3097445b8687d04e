// The first 512 bytes of a checkpoint: the HDF5 user block, which HDF5 itself skips.
//
// Little-endian; what is not listed is zero:
//   0    16 bytes  "heed checkpoint\n"
//   16   u64       version of the format, 1
//   24   u64       bytes behind the block: the HDF5 file
//   32   u64       checksum of the bytes behind the block
//   504  u64       checksum of bytes 0 to 503
// A later version keeps this block's size, mark, version and last checksum where they are.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace heed::train {

inline constexpr int64_t kBlockBytes = 512;
// The first bytes of every checkpoint, also of one that is damaged further on.
inline constexpr std::string_view kCheckpointMark = "heed checkpoint\n";

struct CheckpointBlock {
  int64_t content_bytes = 0;
  uint64_t content_checksum = 0;
};

std::array<char, kBlockBytes> encode_block(const CheckpointBlock& block);

// start: the first kBlockBytes of a file, or all of a shorter one.
// Throws CheckpointError with the reason only where they are not those of a whole, undamaged block of this version, or
// where the file is longer or shorter than the block says.
CheckpointBlock decode_block(std::string_view start, int64_t file_bytes);

// Throws CheckpointError where the checksum of the bytes behind the block is another one.
void require_checksum(const CheckpointBlock& block, uint64_t actual);

}  // namespace heed::train
