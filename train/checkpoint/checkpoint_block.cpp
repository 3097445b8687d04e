#include "train/checkpoint/checkpoint_block.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "autograd/core/check.hpp"
#include "data/io/checksum.hpp"

namespace heed::train {
namespace {

constexpr std::string_view kHdf5Mark = "\x89HDF\r\n\x1a\n";
constexpr uint64_t kVersion = 1;
constexpr int64_t kVersionAt = 16, kContentBytesAt = 24, kContentChecksumAt = 32, kBlockChecksumAt = kBlockBytes - 8;

static_assert(std::endian::native == std::endian::little, "numbers are stored as they are in memory");
void store(char* place, uint64_t value) { std::memcpy(place, &value, sizeof(value)); }
uint64_t load(std::string_view block, int64_t place) {
  uint64_t value = 0;
  std::memcpy(&value, block.data() + place, sizeof(value));
  return value;
}

[[noreturn]] void refuse_foreign(std::string_view start) {
  require<CheckpointError>(!start.empty(), "it is empty");
  require<CheckpointError>(!start.starts_with(kHdf5Mark), "it is an HDF5 file, but no checkpoint of heed");
  throw CheckpointError("it is no checkpoint of heed: it does not begin with \"heed checkpoint\"");
}

}  // namespace

std::array<char, kBlockBytes> encode_block(const CheckpointBlock& block) {
  std::array<char, kBlockBytes> bytes{};
  std::copy(kCheckpointMark.begin(), kCheckpointMark.end(), bytes.begin());
  store(&bytes[kVersionAt], kVersion);
  store(&bytes[kContentBytesAt], static_cast<uint64_t>(block.content_bytes));
  store(&bytes[kContentChecksumAt], block.content_checksum);
  store(&bytes[kBlockChecksumAt], data::checksum(bytes.data(), kBlockChecksumAt));
  return bytes;
}

CheckpointBlock decode_block(std::string_view start, int64_t file_bytes) {
  if (!start.starts_with(kCheckpointMark)) refuse_foreign(start);
  require<CheckpointError>(static_cast<int64_t>(start.size()) >= kBlockBytes,
                           "it is cut off: {} bytes long, the first block alone has {}", file_bytes, kBlockBytes);
  require<CheckpointError>(load(start, kBlockChecksumAt) == data::checksum(start.data(), kBlockChecksumAt),
                           "it is damaged: the checksum of its first {} bytes does not match", kBlockBytes);
  const uint64_t version = load(start, kVersionAt);
  require<CheckpointError>(version == kVersion, "its format has version {}, this heed reads version {}", version,
                           kVersion);
  const uint64_t content_bytes = load(start, kContentBytesAt);
  require<CheckpointError>(content_bytes == static_cast<uint64_t>(file_bytes - kBlockBytes),
                           "it is damaged: {} bytes follow its first block, {} were written", file_bytes - kBlockBytes,
                           content_bytes);
  const CheckpointBlock block{file_bytes - kBlockBytes, load(start, kContentChecksumAt)};
  const auto as_written = encode_block(block);
  require<CheckpointError>(std::equal(as_written.begin(), as_written.end(), start.begin()),
                           "its first {} bytes are not as heed writes them", kBlockBytes);
  return block;
}

void require_checksum(const CheckpointBlock& block, uint64_t actual) {
  require<CheckpointError>(actual == block.content_checksum,
                           "it is damaged: its content was changed after it was written (checksum {:016x}, written was "
                           "{:016x})",
                           actual, block.content_checksum);
}

}  // namespace heed::train
