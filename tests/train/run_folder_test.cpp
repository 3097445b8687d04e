// One process at a time in a run folder, and the folder behind a link.
#include <gtest/gtest.h>

#include <map>

#include "autograd/core/check.hpp"
#include "tests/support/child_process.hpp"
#include "tests/train/tiny.hpp"
#include "train/metrics.hpp"
#include "train/run.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using test::read_file;

class RunFolderTest : public testing::Test {
 protected:
  Config config(const std::string& name, int steps = 2) const {
    return test::tiny_config(
        {"train.run_dir=" + (folder_.path() / name).string(), "stop_after=" + std::to_string(steps)});
  }
  // What is where, with the time of the last change.
  std::map<fs::path, std::pair<std::string, fs::file_time_type>> all_files() const {
    std::map<fs::path, std::pair<std::string, fs::file_time_type>> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      files[entry.path()] = {entry.is_regular_file() ? read_file(entry.path()) : "", entry.last_write_time()};
    }
    return files;
  }
  void expect_taken(const Config& now, bool resume) const {
    const auto before = all_files();
    try {
      run_training(now, {.resume = resume});
      ADD_FAILURE() << "accepted";
    } catch (const ConfigError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("train.run_dir: process " + std::to_string(::getpid()) + " trains in " +
                          fs::canonical(now.train.run_dir).string() + " already"),
                std::string::npos)
          << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
    }
    EXPECT_EQ(all_files(), before);
  }

  test::TemporaryFolder folder_;
};

TEST_F(RunFolderTest, ASecondRunIsRefusedAndChangesNothing) {
  run_training(config("a"));
  fs::create_directory_symlink(folder_.path() / "a", folder_.path() / "link");
  {
    const RunFolder taken(config("a"), true);
    for (const bool resume : {true, false}) {
      for (const char* name : {"a", "a/", "link", "link/."}) expect_taken(config(name, 4), resume);
    }
    EXPECT_NO_THROW(run_training(config("b")));
  }
  EXPECT_EQ(run_training(config("a", 4), {.resume = true}).steps, 4);
}

TEST_F(RunFolderTest, ARunThatIsBeingStartedIsTakenToo) {
  run_training(config("a"));
  const RunFolder started(config("a"), false);
  EXPECT_EQ(started.notices().size(), 1u);
  expect_taken(config("a"), false);
  EXPECT_FALSE(fs::exists(folder_.path() / "a.2"));
  // The earlier run is free.
  EXPECT_EQ(run_training(config("a.1", 4), {.resume = true}).steps, 4);
}

TEST_F(RunFolderTest, TheLockGoesWithTheProcess) {
  run_training(config("a"));
  EXPECT_EQ(test::in_child([&]() -> std::string {
              const RunFolder taken(config("a"), true);
              test::end_process();
            }),
            "");
  EXPECT_NO_THROW(run_training(config("a", 4), {.resume = true}));
}

TEST_F(RunFolderTest, AFolderThatCannotBeLockedIsNamed) {
  fs::create_directories(folder_.path() / "a" / "lock");
  for (const bool resume : {true, false}) {
    try {
      const RunFolder folder(config("a"), resume);
      ADD_FAILURE() << "accepted";
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find((folder_.path() / "a" / "lock").string() + ": Is a directory"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(RunFolderTest, BehindALinkTheFolderIsMovedAndTheLinkStays) {
  fs::create_directories(folder_.path() / "disk" / "run");
  fs::create_directory_symlink(folder_.path() / "disk" / "run", folder_.path() / "link");
  run_training(config("link"));
  const std::string first = read_file(folder_.path() / "disk" / "run" / "metrics.csv");
  run_training(config("link", 3));
  EXPECT_TRUE(fs::is_symlink(folder_.path() / "link"));
  EXPECT_FALSE(fs::exists(folder_.path() / "link.1"));
  EXPECT_EQ(read_file(folder_.path() / "disk" / "run.1" / "metrics.csv"), first);
  EXPECT_NE(read_file(folder_.path() / "link" / "metrics.csv"), first);
  EXPECT_TRUE(fs::exists(folder_.path() / "disk" / "run" / "checkpoints" / "last.h5"));
  EXPECT_EQ(run_training(config("link", 4), {.resume = true}).steps, 4);
}

TEST_F(RunFolderTest, ALinkThatLeadsNowhereIsAnError) {
  fs::create_directory_symlink(folder_.path() / "nowhere", folder_.path() / "link");
  EXPECT_THROW(run_training(config("link")), ConfigError);
  EXPECT_THROW(run_training(config("link"), {.resume = true}), ConfigError);
  EXPECT_FALSE(fs::exists(folder_.path() / "nowhere"));
}

}  // namespace
}  // namespace heed::train
