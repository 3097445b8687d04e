#include "train/checkpoint/checkpoint_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "autograd/core/check.hpp"
#include "autograd/core/host_limits.hpp"
#include "data/io/atomic_file.hpp"
#include "data/io/checksum.hpp"
#include "data/io/descriptor.hpp"
#include "train/checkpoint/hdf5_image.hpp"

namespace heed::train {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kPartBytes = int64_t{1} << 20;

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
  throw CheckpointError("it is not a heed checkpoint: it does not begin with \"heed checkpoint\"");
}

// The inner functions report the reason; this one adds the action and the file.
template <class Action>
auto naming_file(std::string_view action, const fs::path& path, Action run) {
  try {
    return run();
  } catch (const UnreadableError& error) {
    throw UnreadableError(fmt::format("cannot {} checkpoint {}: {}", action, absolute_name(path), error.what()));
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("cannot {} checkpoint {}: {}", action, absolute_name(path), error.what()));
  }
}

void require_success(bool success, std::string_view action) {
  const int error = errno;
  const std::string reason = std::generic_category().message(error);
  require<CheckpointError>(success || error != ENOENT, "cannot {} it: {}", action, reason);
  require<UnreadableError>(success, "cannot {} it: {}", action, reason);
}

// An open checkpoint whose block has been verified.
class CheckpointReader {
 public:
  explicit CheckpointReader(const fs::path& path)
      // Without O_NONBLOCK, opening a pipe would wait for a writer.
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    require_success(file_.number() >= 0, "open");
    struct stat status {};
    require_success(::fstat(file_.number(), &status) == 0, "inspect");
    require<CheckpointError>(!S_ISDIR(status.st_mode), "it is a folder");
    require<CheckpointError>(S_ISREG(status.st_mode), "it is not a regular file");
    const int64_t start_bytes = std::min<int64_t>(kBlockBytes, status.st_size);
    read(start_.data(), start_bytes);
    block_ = decode_block({start_.data(), static_cast<size_t>(start_bytes)}, status.st_size);
  }

  int64_t content_bytes() const { return block_.content_bytes; }

  // Reads and verifies the whole file.
  ByteBlock whole() {
    ByteBlock bytes(kBlockBytes + block_.content_bytes);
    std::copy(start_.begin(), start_.end(), bytes.data());
    read_content([&](int64_t done) { return bytes.data() + kBlockBytes + done; });
    return bytes;
  }

  // Verifies the whole file without keeping it.
  void verify() {
    const ByteBlock part(kPartBytes);
    read_content([&](int64_t) { return part.data(); });
  }

 private:
  // Reads in chunks, so that a chunk is still in the cache for the checksum. place(done) returns the destination of the
  // next chunk.
  template <class Place>
  void read_content(Place place) {
    data::Checksum sum;
    for (int64_t done = 0; done < block_.content_bytes; done += kPartBytes) {
      const int64_t bytes = std::min(kPartBytes, block_.content_bytes - done);
      char* const part = place(done);
      read(part, bytes);
      sum.update(part, bytes);
    }
    require_checksum(block_, sum.value());
  }

  void read(char* to, int64_t bytes) {
    while (bytes > 0) {
      const ssize_t got =
          data::retry_interrupted([&] { return ::read(file_.number(), to, static_cast<size_t>(bytes)); });
      require_success(got >= 0, "read");
      require<CheckpointError>(got > 0, "it became shorter while it was read");
      to += got;
      bytes -= got;
    }
  }

  data::Descriptor file_;
  std::array<char, kBlockBytes> start_{};
  CheckpointBlock block_;
};

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

std::string absolute_name(const fs::path& path) {
  std::error_code no_current_folder;
  const fs::path absolute = fs::absolute(path, no_current_folder);
  return (no_current_folder ? path : absolute).string();
}

void save_checkpoint(const fs::path& path, const CheckpointContent& content) {
  naming_file("write", path, [&] {
    make_room(kPartBytes);  // ByteBlock reports whether that was enough
    const ByteBlock part(kPartBytes);
    const Hdf5Layout layout = lay_out(content);
    data::write_file_durably(path, layout.size(), [&](const data::WriteAt& write) {
      data::Checksum sum;
      // A part is still in the cache for the checksum. All but the first begin at a multiple of kPartBytes.
      for (int64_t begin = kBlockBytes, bytes = 0; begin < layout.size(); begin += bytes) {
        bytes = std::min(kPartBytes - begin % kPartBytes, layout.size() - begin);
        const std::span<char> to(part.data(), static_cast<size_t>(bytes));
        layout.copy(begin, to);
        sum.update(to.data(), bytes);
        write(begin, {to.data(), to.size()});
      }
      const auto block = encode_block({layout.size() - kBlockBytes, sum.value()});
      write(0, {block.data(), block.size()});
    });
  });
}

int64_t checkpoint_file_bytes(const CheckpointContent& content, std::span<const TensorSpec> more) {
  return image_bytes(content, more);
}

CheckpointContent load_checkpoint(const fs::path& path) {
  return naming_file("read", path, [&] {
    CheckpointReader reader(path);
    // The file and, in addition, its tensors.
    const MemoryNeed need{.bytes = 2 * reader.content_bytes(),
                          .what = fmt::format("checkpoint {}", absolute_name(path)),
                          .advice = "free memory or raise the limit"};
    CheckpointContent content = with_memory(need, [&] { return image_to_content(reader.whole().view()); });
    content.file = absolute_name(path);
    return content;
  });
}

std::optional<std::string> verify_checkpoint(const fs::path& path) {
  try {
    naming_file("read", path, [&] { CheckpointReader(path).verify(); });
    return std::nullopt;
  } catch (const CheckpointError& error) {
    return error.what();
  }
}

}  // namespace heed::train
