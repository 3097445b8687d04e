// Checkpoint files: one HDF5 file with all content. An incomplete or damaged file is refused.
//
// The HDF5 file (content: hdf5_image.hpp) starts with a user block of 512 bytes that stores its size and checksum
// (checkpoint_block.hpp). Other programs skip it: h5py, h5dump and HDFView open the file for reading. After a program
// has opened it for writing, it no longer matches its checksum and is refused.
// Memory in addition to the content: checkpoint_file_bytes() while saving, the file size while loading; MemoryError is
// thrown before anything is written. With AdamW, a file has 12 bytes per parameter (the weight and two moments in f32)
// and about 400 bytes per tensor.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "train/checkpoint/checkpoint_content.hpp"

namespace heed::train {

// The file exists, but the system does not let this process read it. It may be undamaged.
struct UnreadableError : CheckpointError {
  using CheckpointError::CheckpointError;
};

// The name of a file in messages: its absolute path, or the path as given if the current directory has been removed.
std::string absolute_name(const std::filesystem::path& path);

// Replaces the checkpoint at path. After an error, a kill or a power failure the old file still exists; see
// write_file_durably(). The directory must exist.
// Throws CheckpointError with the file and the reason, ValueError and DTypeError for content that cannot be stored,
// MemoryError.
void save_checkpoint(const std::filesystem::path& path, const CheckpointContent& content);

// Upper bound of the size in bytes of a checkpoint with this content and the tensors in `more`; at most 1 % + 64 KiB
// too high. It is fast and needs no memory for the elements. Replacing a checkpoint needs this much free space on the
// disk, since the old file is kept until the new one is complete.
// Throws ValueError and DTypeError for content that cannot be stored, CheckpointError, MemoryError.
int64_t checkpoint_file_bytes(const CheckpointContent& content, std::span<const TensorSpec> more = {});

// Verifies size, magic, version and checksums before HDF5 reads a byte, so that damaged, truncated or foreign files are
// refused at once. Throws CheckpointError with the file and the reason (UnreadableError if the system refuses to open
// or read it), MemoryError.
CheckpointContent load_checkpoint(const std::filesystem::path& path);

// Only verifies the file, in constant memory. Returns nullopt, or the reason why the file would be refused.
std::optional<std::string> verify_checkpoint(const std::filesystem::path& path);

}  // namespace heed::train
