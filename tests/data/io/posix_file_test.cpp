#include "data/io/posix_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "autograd/core/check.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;

TEST(PosixFile, NamesAreSafeToPrint) {
  EXPECT_EQ(printable("plain é 語"), "plain é 語");
  EXPECT_EQ(printable("a\x1b[2Jb\nc\x7f"), "a\\u001B[2Jb\\u000Ac\\u007F");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xe2\x80\xa8"),
            "\\u009B31m\\u2028");
  EXPECT_EQ(printable("\x9b"
                      "31m\xe8\xaa"),
            "\\x9B31m\\xE8\\xAA");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\u0000");
  EXPECT_EQ(quoted_text("a \"b\" \\ \x1b"), "\"a \\\"b\\\" \\\\ \\u001B\"");
  EXPECT_EQ(quoted_path("/a/../b\n"), "\"/b\\u000A\"");
}

TEST(PosixFile, OpensOnlyFilesOnDisk) {
  const ScratchFolder folder;
  const auto text_of = [](const std::string& path) {
    return error_text<DataError>([&] { PosixFile(path, PosixFile::Access::read); });
  };
  EXPECT_TRUE(contains(text_of(folder.path()), {"is a folder", "must be a file on disk"}));
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(contains(text_of(folder.path("pipe")), {"is a pipe", "must be a file on disk"}));
  EXPECT_TRUE(contains(text_of("/dev/zero"), {"is a device"}));
}

TEST(PosixFile, AStampTellsAFileFromAnother) {
  const ScratchFolder folder;
  const std::string path = folder.write("a", "text");
  const PosixFile file(path, PosixFile::Access::read);
  EXPECT_EQ(file.stamp(), file.stamp());
  EXPECT_EQ(stamp_at(path), file.stamp());
  std::filesystem::create_symlink("a", folder.path("link"));
  EXPECT_EQ(stamp_at(folder.path("link")), file.stamp());
  EXPECT_EQ(stamp_at(folder.path("none")), std::nullopt);
  EXPECT_NE(stamp_at(folder.write("b", "text")), file.stamp());
}

}  // namespace
}  // namespace heed::data
