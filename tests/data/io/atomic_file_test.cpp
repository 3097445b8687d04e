#include "data/io/atomic_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "autograd/core/check.hpp"
#include "tests/data/scratch.hpp"

namespace heed::data {
namespace {

using test::contains, test::error_text, test::ScratchFolder;
using Names = std::vector<std::string>;

TEST(NewFile, AppearsWholeOrNotAtAll) {
  const ScratchFolder folder;
  { const NewFile file(folder.path("file")); }
  EXPECT_EQ(folder.names(), Names{});
  {
    NewFile file(folder.path("file"));
    EXPECT_EQ(folder.names().size(), 1u);
    std::ofstream(file.working_path()) << "new";
    EXPECT_FALSE(std::filesystem::exists(folder.path("file")));
    file.commit();
  }
  EXPECT_EQ(folder.read("file"), "new");
  EXPECT_EQ(folder.names(), Names{"file"});
  EXPECT_TRUE(
      contains(error_text<DataError>([&] { NewFile none(folder.path("none/file")); }), {"none/file", "created"}));
}

TEST(NewFile, NeverReplacesAFileThatAppearedMeanwhile) {
  for (const bool is_link : {false, true}) {
    const ScratchFolder folder;
    {
      NewFile file(folder.path("file"));
      if (is_link) {
        std::filesystem::create_symlink("nowhere", folder.path("file"));
      } else {
        folder.write("file", "precious");
      }
      EXPECT_TRUE(contains(error_text<DataError>([&] { file.commit(); }), {folder.path("file"), "in the meantime"}));
    }
    EXPECT_EQ(folder.names(), Names{"file"});
    EXPECT_EQ(folder.read("file"), is_link ? "" : "precious");
    EXPECT_EQ(std::filesystem::is_symlink(folder.path("file")), is_link);
  }
}

TEST(NewFile, OneOfTwoWins) {
  const ScratchFolder folder;
  NewFile first(folder.path("file")), second(folder.path("file"));
  std::ofstream(first.working_path()) << "first";
  std::ofstream(second.working_path()) << "second";
  second.commit();
  EXPECT_THROW(first.commit(), DataError);
  EXPECT_EQ(folder.read("file"), "second");
}

TEST(NewFile, EveryWayOfNamingKeepsWhatIsThere) {
  for (const Naming naming : {Naming::rename, Naming::link, Naming::reserve}) {
    const ScratchFolder folder;
    folder.write("from", "ours");
    folder.write("to", "");
    EXPECT_TRUE(contains(error_text<DataError>([&] { give_name(folder.path("from"), folder.path("to"), naming); }),
                         {folder.path("to"), "in the meantime"}));
    EXPECT_EQ(folder.read("from"), "ours");
    EXPECT_EQ(folder.read("to"), "");
    EXPECT_TRUE(give_name(folder.path("from"), folder.path("free"), naming));
    EXPECT_EQ(folder.read("free"), "ours");
    Names names = folder.names();
    std::sort(names.begin(), names.end());
    EXPECT_EQ(names, (Names{"free", "to"}));
  }
}

// A process that this signal ends while it writes.
void leave_behind(const std::string& path, int signal_number) {
  const pid_t child = fork();
  if (child == 0) {
    const NewFile file(path), second(path);
    raise(signal_number);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), signal_number);
}

TEST(NewFile, ASignalRemovesIt) {
  const ScratchFolder folder;
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    leave_behind(folder.path("file"), signal_number);
    EXPECT_EQ(folder.names(), Names{}) << signal_number;
  }
}

TEST(NewFile, RemovesWhatKilledProcessesLeftAndNothingElse) {
  const ScratchFolder folder;
  leave_behind(folder.path("file"), SIGKILL);
  leave_behind(folder.path("other"), SIGKILL);
  EXPECT_EQ(folder.names().size(), 4u);
  const Names foreign{"file.tmp-short", "file.tmp-toolong", "file.tmp-aaaaaa", "file.tmp-gggggg", "file"};
  folder.write("file.tmp-aaaaaa", "a text of the user's");
  folder.write("file.tmp-gggggg", "");
  folder.write("file.tmp-short", std::string(kUnfinishedMark));
  folder.write("file.tmp-toolong", std::string(kUnfinishedMark));
  folder.write("file", "old");
  const NewFile alive(folder.path("file"));
  const NewFile next(folder.path("file"));
  const Names names = folder.names();
  for (const std::string& name : foreign) EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  EXPECT_TRUE(std::filesystem::exists(alive.working_path()));
  EXPECT_EQ(names.size(), foreign.size() + 4);  // two that live, and two of the other path
}

}  // namespace
}  // namespace heed::data
