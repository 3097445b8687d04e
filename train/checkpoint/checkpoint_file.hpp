// Checkpoint files: one HDF5 file with all content. An incomplete or damaged file is refused.
//
// The HDF5 file (content: hdf5_image.hpp) starts with a user block of 512 bytes that stores its size and checksum (see
// CheckpointBlock). Other programs skip it: h5py, h5dump and HDFView open the file for reading. After a program has
// opened it for writing, it no longer matches its checksum and is refused.
// Memory in addition to the content: while saving 1 MiB and about 1 KiB per tensor, while loading the file size;
// MemoryError is thrown before anything is written. With AdamW, a file has 12 bytes per parameter (the weight and two
// moments in f32) and about 400 bytes per tensor.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "train/checkpoint/checkpoint_content.hpp"

namespace heed::train {

// The file exists, but the system does not let this process read it. It may be undamaged.
struct UnreadableError : CheckpointError {
  using CheckpointError::CheckpointError;
};

// The name of a file in messages: its absolute path, or the path as given if the current directory has been removed.
std::string absolute_name(const std::filesystem::path& path);

// Replaces the checkpoint at path. After an error, a kill or a power failure the old file still exists; see
// data::write_file_durably(). The directory must exist.
// Throws CheckpointError with the file and the reason, ValueError and DTypeError for content that cannot be stored,
// MemoryError.
void save_checkpoint(const std::filesystem::path& path, const CheckpointContent& content);

// The size in bytes of a checkpoint with this content and the tensors in `more`. It is fast and needs no memory for the
// elements. Replacing a checkpoint needs this much free space on the disk, since the old file is kept until the new one
// is complete.
// Throws ValueError and DTypeError for content that cannot be stored, CheckpointError, MemoryError.
int64_t checkpoint_file_bytes(const CheckpointContent& content, std::span<const TensorSpec> more = {});

// Verifies size, magic, version and checksums before HDF5 reads a byte, so that damaged, truncated or foreign files are
// refused at once. Throws CheckpointError with the file and the reason (UnreadableError if the system refuses to open
// or read it), MemoryError.
CheckpointContent load_checkpoint(const std::filesystem::path& path);

// Only verifies the file, in constant memory. Returns nullopt, or the reason why the file would be refused.
std::optional<std::string> verify_checkpoint(const std::filesystem::path& path);

// The header of a checkpoint: its first 512 bytes, which are the HDF5 user block that HDF5 skips.
//
// Little-endian; bytes that are not listed are zero:
//   0    16 bytes  magic: "heed checkpoint\n"
//   16   u64       format version, 1
//   24   u64       number of bytes after the block: the HDF5 file
//   32   u64       checksum of the bytes after the block
//   504  u64       checksum of bytes 0 to 503
// Later versions keep the size of the block and the positions of the magic, the version and the last checksum.
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
