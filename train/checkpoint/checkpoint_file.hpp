// Checkpoints on disk: one HDF5 file with everything, that is whole or refused.
//
// The HDF5 file (see hdf5_image.hpp for what is in it) has a first block of 512 bytes with its length and checksum
// (checkpoint_block.hpp), which other programs skip: h5py, h5dump and HDFView open it, for reading. Opened for writing
// it no longer matches its checksum and is refused.
// Memory: saving takes checkpoint_file_bytes() besides the content for a moment, loading the size of the file besides
// the content; MemoryError before anything is written. With AdamW a file has 12 bytes per parameter (the weight and two
// moments in f32) and about 400 bytes per tensor.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "train/checkpoint/checkpoint_content.hpp"

namespace heed::train {

// A file that is there, and that the system does not let this process read. It may be whole.
struct UnreadableError : CheckpointError {
  using CheckpointError::CheckpointError;
};

// How messages name a file: its absolute path, or the path as given where the current folder has been removed.
std::string absolute_name(const std::filesystem::path& path);

// Puts a checkpoint in the place of the one at path. After an error, a kill or a power cut the old one is still there;
// see durable_file.hpp. The folder must exist.
// Throws CheckpointError naming the file and the reason, ValueError for names a checkpoint cannot hold, MemoryError.
void save_checkpoint(const std::filesystem::path& path, const CheckpointContent& content);

// The size in bytes that the file of this content and further tensors will have, in an instant and without memory for
// their elements: never too low, too high by at most 1 % + 64 KiB. Replacing a checkpoint needs this much free space on
// the disk, since the old file stays until the new one is complete.
// Throws ValueError and DTypeError for what a checkpoint cannot hold, CheckpointError, MemoryError.
int64_t checkpoint_file_bytes(const CheckpointContent& content, std::span<const TensorSpec> more = {});

// Size, mark, version and checksums are verified before HDF5 sees a byte, so that damaged, cut off or foreign files
// give an error at once. Throws CheckpointError naming the file and the reason (UnreadableError where the system
// refuses to open or read it), MemoryError.
CheckpointContent load_checkpoint(const std::filesystem::path& path);

// Only verifies, in constant memory: nothing, or why the file would be refused.
std::optional<std::string> verify_checkpoint(const std::filesystem::path& path);

}  // namespace heed::train
