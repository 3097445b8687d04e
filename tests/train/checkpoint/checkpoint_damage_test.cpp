// Files that are no whole checkpoint: each is refused with its name and a reason, before HDF5 sees it.
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <random>

#include "data/io/checksum.hpp"
#include "tests/support/child_process.hpp"
#include "tests/train/checkpoint/checkpoint_samples.hpp"
#include "train/checkpoint/checkpoint_file.hpp"

namespace heed::train {
namespace {

using namespace test;
namespace fs = std::filesystem;

class CheckpointDamageTest : public testing::Test {
 protected:
  CheckpointDamageTest() {
    save_checkpoint(path_, sample_content());
    bytes_ = read_file(path_);
  }

  void expect_bytes_refused(std::string_view bytes, const std::string& reason) const {
    write_file(path_, bytes);
    expect_refused(path_, reason);
  }

  TemporaryFolder folder_;
  const fs::path path_ = folder_.path() / "last.h5";
  std::string bytes_;
};

TEST_F(CheckpointDamageTest, CutOffAnywhere) {
  for (size_t size = bytes_.size(); size-- > 0;) {
    fs::resize_file(path_, size);
    const std::string reason = size == 0    ? "it is empty"
                               : size < 16  ? "it is not a heed checkpoint"
                               : size < 512 ? "it is cut off: " + std::to_string(size) + " bytes long"
                                            : "bytes follow its first block, " + std::to_string(bytes_.size() - 512);
    expect_refused(path_, reason);
    if (HasFailure()) FAIL() << size << " of " << bytes_.size() << " bytes";
  }
}

TEST_F(CheckpointDamageTest, Longer) { expect_bytes_refused(bytes_ + '\0', "it is damaged"); }

TEST_F(CheckpointDamageTest, EveryByteCounts) {
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const auto overwrite = [&](size_t place, char byte) {
    file.seekp(static_cast<std::streamoff>(place)).put(byte).flush();
    ASSERT_TRUE(file);
  };
  for (size_t i = 0; i < bytes_.size(); ++i) {
    overwrite(i, static_cast<char>(bytes_[i] ^ (1 << (i % 8))));
    ASSERT_NE(verify_checkpoint(path_), std::nullopt) << i;
    overwrite(i, bytes_[i]);
  }
  EXPECT_EQ(verify_checkpoint(path_), std::nullopt);
}

TEST_F(CheckpointDamageTest, SixtyFourRandomBytesChanged) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    std::mt19937 random(seed);
    std::string changed = bytes_;
    for (int i = 0; i < 64; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    if (changed == bytes_) continue;
    expect_bytes_refused(changed, "it is ");
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST_F(CheckpointDamageTest, TheBlockOfAnotherCheckpoint) {
  const fs::path other = folder_.path() / "other.h5";
  save_checkpoint(other, sample_content(8));
  const std::string other_bytes = read_file(other);
  ASSERT_EQ(other_bytes.size(), bytes_.size());
  expect_bytes_refused(other_bytes.substr(0, kBlockBytes) + bytes_.substr(kBlockBytes),
                       "was changed after it was written");
}

// A first block that somebody else changed and gave a fitting checksum.
TEST_F(CheckpointDamageTest, AnotherFirstBlock) {
  const auto with_byte = [&](size_t place, char byte) {
    std::string changed = bytes_;
    changed[place] = byte;
    const uint64_t sum = data::checksum(changed.data(), kBlockBytes - 8);
    std::memcpy(changed.data() + kBlockBytes - 8, &sum, sizeof(sum));
    return changed;
  };
  expect_bytes_refused(with_byte(16, 2), "its format has version 2, this heed reads version 1");
  expect_bytes_refused(with_byte(31, '\x80'), "bytes follow its first block");
  expect_bytes_refused(with_byte(39, 'x'), "was changed after it was written");
  expect_bytes_refused(with_byte(40, 1), "its first 512 bytes are not as heed writes them");
}

TEST_F(CheckpointDamageTest, ForeignFiles) {
  expect_bytes_refused("To be, or not to be\n", "it does not begin with \"heed checkpoint\"");
  expect_bytes_refused("heed checkpoint\n", "it is cut off: 16 bytes long");
  expect_bytes_refused(std::string(100'000, '\0'), "it is not a heed checkpoint");
  expect_bytes_refused(std::string_view(bytes_).substr(kBlockBytes), "it is an HDF5 file, but no checkpoint of heed");
  expect_bytes_refused(std::string(kBlockBytes, '\0') + bytes_.substr(kBlockBytes), "it is not a heed checkpoint");
}

TEST_F(CheckpointDamageTest, WhatIsNoFile) {
  const fs::path folder = folder_.path(), pipe = folder / "pipe.h5", socket = folder / "socket.h5";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(mknod(socket.c_str(), S_IFSOCK | 0600, 0), 0);
  fs::create_symlink("nowhere", folder / "dangling.h5");
  fs::create_symlink("loop.h5", folder / "loop.h5");
  fs::create_symlink(folder, folder / "to_folder.h5");
  fs::create_symlink(pipe, folder / "to_pipe.h5");
  const std::vector<std::pair<fs::path, const char*>> table = {
      {folder, "it is a folder"},
      {folder / "to_folder.h5", "it is a folder"},
      {folder / "none.h5", "cannot open it: No such file or directory"},
      {folder / "dangling.h5", "cannot open it: No such file or directory"},
      {folder / "loop.h5", "cannot open it: Too many levels of symbolic links"},
      {path_ / "inside.h5", "cannot open it: Not a directory"},
      {folder / std::string(300, 'a'), "cannot open it: File name too long"},
      {"/dev/zero", "it is not a regular file"},
      {"/dev/null", "it is not a regular file"},
      {pipe, "it is not a regular file"},
      {folder / "to_pipe.h5", "it is not a regular file"},
      {socket, "cannot open it: No such device or address"},
      {"/proc/self/status", "it is empty"},  // as files of /proc say
  };
  for (const auto& [path, reason] : table) expect_refused(path, reason);
}

// A file of /sys says that it has 4096 bytes and ends after a few, as one that is cut off during the reading.
TEST_F(CheckpointDamageTest, AFileThatEndsEarlierThanItsSizeSays) {
  const fs::path path = "/sys/devices/system/cpu/online";
  std::error_code none;
  if (fs::file_size(path, none) != 4096 || none) GTEST_SKIP() << path << " is not there";
  expect_refused(path, "it became shorter while it was read");
}

TEST_F(CheckpointDamageTest, LinksAndReadOnlyFilesAreFiles) {
  fs::create_symlink(path_, folder_.path() / "link.h5");
  fs::permissions(path_, fs::perms::owner_read);
  expect_same(load_checkpoint(folder_.path() / "link.h5"), sample_content());
  EXPECT_EQ(load_checkpoint(folder_.path() / "link.h5").file, (folder_.path() / "link.h5").string());
}

// Sparse, so that it takes no room: a file of which only the size is known is refused by its first block.
TEST_F(CheckpointDamageTest, Huge) {
  fs::resize_file(path_, uintmax_t{1} << 40);
  expect_refused(path_, "it is damaged: 1099511627264 bytes follow its first block, ");
  fs::resize_file(folder_.path() / "last.h5", 0);
  fs::resize_file(path_, uintmax_t{1} << 40);
  expect_refused(path_, "it is not a heed checkpoint");
}

#ifndef HEED_ADDRESS_SANITIZER
TEST_F(CheckpointDamageTest, AFileLargerThanTheMemory) {
  const auto block = encode_block({(int64_t{1} << 40) - kBlockBytes, 0});
  write_file(path_, {block.data(), block.size()});
  fs::resize_file(path_, uintmax_t{1} << 40);
  const std::string outcome = in_child([&]() -> std::string {
    const rlimit limit{size_t{1} << 30, size_t{1} << 30};
    if (::setrlimit(RLIMIT_AS, &limit) != 0) return "no limit";
    try {
      load_checkpoint(path_);
    } catch (const MemoryError& error) {
      return error.what();
    }
    return "loaded";
  });
  EXPECT_TRUE(outcome.starts_with("out of memory: checkpoint " + path_.string() + " needs 2.0 TiB, ")) << outcome;
}
#endif

TEST_F(CheckpointDamageTest, PlacesWhereNothingCanBeSaved) {
  const fs::path folder = folder_.path(), taken = folder / "taken.h5";
  fs::create_directory(taken);
  fs::create_directory(folder / "read_only");
  fs::permissions(folder, fs::perms::all);
  fs::permissions(folder / "read_only", fs::perms::owner_read | fs::perms::others_read | fs::perms::others_exec);
  const std::vector<std::pair<fs::path, const char*>> table = {
      {taken, "cannot take the place of the old file: Is a directory"},
      {folder / "none/last.h5", "no new file can be made in its folder: No such file or directory"},
      {path_ / "last.h5", "no new file can be made in its folder: Not a directory"},
      {folder / "read_only/last.h5", "no new file can be made in its folder: Permission denied"},
      {folder / std::string(300, 'a'), "no new file can be made in its folder: File name too long"},
  };
  const auto before = names_in(folder);
  for (const auto& [path, reason] : table) {
    const std::string error = in_child([&, to = path]() -> std::string {
      if (::getuid() == 0 && ::setuid(65534) != 0) return "no other user";  // root may write everywhere
      return checkpoint_error([&] { save_checkpoint(to, sample_content()); });
    });
    EXPECT_EQ(error, "cannot write checkpoint " + path.string() + ": " + reason);
  }
  EXPECT_EQ(names_in(folder), before);
  EXPECT_EQ(read_file(path_), bytes_);
}

// A relative path has no absolute one then; what the library says about that is nothing for the user.
TEST_F(CheckpointDamageTest, TheCurrentFolderIsRemoved) {
  const fs::path gone = folder_.path() / "gone";
  fs::create_directory(gone);
  const std::string errors = in_child([&]() -> std::string {
    fs::current_path(gone);
    fs::remove(gone);
    return checkpoint_error([&] { load_checkpoint("last.h5"); }) + "\n" +
           checkpoint_error([&] { save_checkpoint("last.h5", {}); }) + "\n" +
           checkpoint_error([&] { load_checkpoint(path_).integer("none"); });
  });
  EXPECT_EQ(errors,
            "cannot read checkpoint last.h5: cannot open it: No such file or directory\n"
            "cannot write checkpoint last.h5: no new file can be made in its folder: No such file or directory\n"
            "checkpoint " +
                path_.string() + ": dataset integers/none is missing");
}

TEST_F(CheckpointDamageTest, AFileThatMayNotBeRead) {
  fs::permissions(folder_.path(), fs::perms::all);
  fs::permissions(path_, fs::perms::none);
  const std::string error = in_child([&]() -> std::string {
    if (::getuid() == 0 && ::setuid(65534) != 0) return "no other user";  // root may read everything
    return verify_checkpoint(path_).value_or("accepted");
  });
  expect_text(error, "cannot read checkpoint " + path_.string() + ": cannot open it: Permission denied");
}

// The block fits, but what follows is no HDF5 file: HDF5 sees it, and what it says is passed on.
TEST_F(CheckpointDamageTest, AValidBlockBeforeSomethingElse) {
  write_file(path_, sealed(std::string(2000, 'x')));
  EXPECT_EQ(verify_checkpoint(path_), std::nullopt);
  const std::string error = checkpoint_error([&] { load_checkpoint(path_); });
  expect_text(error, "cannot read checkpoint " + path_.string() + ": HDF5 cannot open it: ");
  write_file(path_, sealed(std::string(kBlockBytes, 'x')));
  expect_text(checkpoint_error([&] { load_checkpoint(path_); }), "HDF5 cannot open it: ");
}

}  // namespace
}  // namespace heed::train
