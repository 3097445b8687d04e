// A checkpoint's content as the bytes of an HDF5 file, made and read in memory only.
//
//   /tensors/<name>    f32, f64 or i32, up to five dimensions
//   /integers/<name>   i64, a scalar
//   /reals/<name>      f64, a scalar
//   /texts/<name>      u8, one dimension: the bytes of the text
// Little-endian, contiguous, no timestamps: the same content gives the same bytes. The four groups are always there.
// HDF5 1.10 and later read it. HDF5 is not made for damaged bytes and may crash on them: whoever reads must have
// verified a checksum before. A checksum does not stop a file that was made to do harm, so what could reach other files
// or take endless time or memory is refused: links that are not hard, elements in other files or datasets, in chunks or
// behind filters, objects with two paths, datasets that share elements, names that heed does not write, other top
// groups. Attributes are ignored.
#pragma once

#include <span>
#include <string_view>

#include "train/checkpoint/byte_block.hpp"
#include "train/checkpoint/checkpoint_content.hpp"

namespace heed::train {

// The whole file; its first kBlockBytes bytes, the user block, are zero.
// Throws ValueError (see require_storable), CheckpointError, MemoryError.
ByteBlock content_to_image(const CheckpointContent& content);

// An upper bound of the size of that file for this content and further tensors, closer than 1 % + 64 KiB. Builds the
// file without the elements, so it takes memory and time for the names only. Throws as content_to_image() does.
int64_t max_image_bytes(const CheckpointContent& content, std::span<const TensorSpec> more = {});

// Throws CheckpointError naming the dataset or group, MemoryError.
CheckpointContent image_to_content(std::string_view image);

}  // namespace heed::train
