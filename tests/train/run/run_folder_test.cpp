// One process at a time in a run folder, and the folder behind a link.
#include <gtest/gtest.h>

#include <map>

#include "autograd/core/check.hpp"
#include "tests/support/child_process.hpp"
#include "tests/train/tiny.hpp"
#include "train/run/run.hpp"
#include "train/run/run_folder.hpp"
#include "train/run/run_mark.hpp"

namespace heed::train {
namespace {

namespace fs = std::filesystem;
using test::read_file;

class RunFolderTest : public testing::Test {
 protected:
  Config config(const std::string& name, int steps = 2) const {
    Config made = test::tiny_config({"train.run_dir=" + (folder_.path() / name).string(),
                                     "stop_after=" + std::to_string(steps), "final_eval=none"});
    fix_paths(made);
    return made;
  }
  // What is where, with the time of the last change.
  std::map<fs::path, std::pair<std::string, fs::file_time_type>> all_files() const {
    std::map<fs::path, std::pair<std::string, fs::file_time_type>> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      // It holds the number of the process that had the lock last.
      if (entry.path().filename() == "lock" && entry.path().parent_path().filename() == ".heed") continue;
      if (entry.path().filename() == ".heed") continue;
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
      EXPECT_NE(text.find("train.run_dir: process " + std::to_string(::getpid()) + " is already training in " +
                          fs::canonical(now.train.run_dir).string()),
                std::string::npos)
          << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
    }
    EXPECT_TRUE(all_files() == before);
  }

  // One line with these parts, and not a byte changed.
  void expect_refused(const Config& now, bool resume, const std::vector<std::string>& parts) const {
    const auto before = all_files();
    try {
      run_training(now, {.resume = resume});
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      const std::string text = error.what();
      for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
      EXPECT_EQ(text.find('\n'), std::string::npos);
    }
    EXPECT_TRUE(all_files() == before);
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
  RunFolder started(config("a"), false);
  EXPECT_EQ(started.take_notices().size(), 1u);
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

TEST_F(RunFolderTest, ALockThatIsNoFileIsRefused) {
  run_training(config("a"));
  const fs::path lock = folder_.path() / "a" / ".heed" / "lock";
  for (const bool is_link : {false, true}) {
    fs::remove(lock);
    if (is_link) {
      std::ofstream(folder_.path() / "other") << "mine";
      fs::create_symlink(folder_.path() / "other", lock);
    } else {
      fs::create_directory(lock);
    }
    for (const bool resume : {true, false}) expect_refused(config("a"), resume, {"train.run_dir", lock.string()});
    EXPECT_TRUE(!is_link || read_file(folder_.path() / "other") == "mine");
  }
}

TEST_F(RunFolderTest, AFolderOfTheUsersIsNotMovedAside) {
  fs::create_directories(folder_.path() / "disk" / "run");
  fs::create_directory_symlink(folder_.path() / "disk" / "run", folder_.path() / "link");
  run_training(config("link"));
  expect_refused(config("link", 3), false, {"heed did not make the folder", "--resume"});
  EXPECT_EQ(run_training(config("link", 4), {.resume = true}).steps, 4);
}

TEST_F(RunFolderTest, BehindALinkAFolderOfHeedsIsMovedAndTheLinkStays) {
  fs::create_directories(folder_.path() / "disk");
  run_training(config("disk/run"));
  fs::create_directory_symlink(folder_.path() / "disk" / "run", folder_.path() / "link");
  const std::string first = read_file(folder_.path() / "disk" / "run" / "metrics.csv");
  run_training(config("link", 3));
  EXPECT_TRUE(fs::is_symlink(folder_.path() / "link"));
  EXPECT_FALSE(fs::exists(folder_.path() / "link.1"));
  EXPECT_EQ(read_file(folder_.path() / "disk" / "run.1" / "metrics.csv"), first);
  EXPECT_NE(read_file(folder_.path() / "link" / "metrics.csv"), first);
  EXPECT_TRUE(fs::exists(folder_.path() / "disk" / "run" / "checkpoints" / "last.h5"));
  EXPECT_EQ(run_training(config("link", 4), {.resume = true}).steps, 4);
}

// Whatever stands under one of heed's names in a folder without its mark is the user's.
TEST_F(RunFolderTest, NothingIsReplacedInAFolderOfTheUsers) {
  for (const char* name : {"config.toml", "metrics.csv", "summary.json", "checkpoints", ".heed", "checkpoints/last.h5",
                           "checkpoints/best.h5", "checkpoints/step-000007.h5", "checkpoints/.last.h5.heed-12",
                           ".config.toml.heed-12", ".heed/mark", ".heed/lock", "plot.svg"}) {
    SCOPED_TRACE(name);
    const fs::path run = folder_.path() / "run";
    fs::remove_all(run);
    fs::create_directories((run / name).parent_path());
    std::ofstream(run / name) << "mine";
    for (const bool resume : {false, true}) expect_refused(config("run"), resume, {run.string()});
  }
}

TEST_F(RunFolderTest, FilesOfOtherNamesStayBesideARun) {
  const fs::path run = folder_.path() / "run";
  fs::create_directories(run / "checkpoints" / "llama");
  for (const char* name : {"paper.tex", "lock", "checkpoints/other.h5", "checkpoints/last.h5.tmp-12"}) {
    std::ofstream(run / name) << "mine";
  }
  run_training(config("run"));
  EXPECT_EQ(run_training(config("run", 4), {.resume = true}).steps, 4);
  for (const char* name : {"paper.tex", "lock", "checkpoints/other.h5", "checkpoints/last.h5.tmp-12"}) {
    EXPECT_EQ(read_file(run / name), "mine");
  }
  EXPECT_TRUE(fs::exists(run / "checkpoints" / "llama"));
  expect_refused(config("run"), false, {"heed did not make the folder"});
}

TEST_F(RunFolderTest, ARunWithFilesOfTheUsersIsNotMovedAside) {
  for (const char* name :
       {"plot.png", "plot.svg", "report.html", "checkpoints/copy.h5", ".heed/note", "samples/one.txt"}) {
    const fs::path run = folder_.path() / "run";
    fs::remove_all(run);
    run_training(config("run"));
    fs::create_directories((run / name).parent_path());
    std::ofstream(run / name) << "mine";
    expect_refused(config("run"), false,
                   {"which is not moved aside, since heed did not make", fs::path(name).begin()->string()});
  }
}

TEST_F(RunFolderTest, APictureOfHeedIsMovedWithItsRun) {
  run_training(config("run"));
  const fs::path plot = folder_.path() / "run" / "plot.svg", moved = folder_.path() / "run.1" / "plot.svg";
  for (const char* mark : {"<dc:title>heed</dc:title>", "<dc:title>Inkscape</dc:title>", ""}) {
    std::ofstream(plot) << "<?xml version=\"1.0\"?>\n" << mark;
    EXPECT_EQ(may_replace_picture(plot), std::string(mark).find("heed") != std::string::npos) << mark;
  }
  std::ofstream(plot) << "<?xml version=\"1.0\"?>\n<dc:title>heed</dc:title>";
  run_training(config("run"));
  EXPECT_TRUE(fs::exists(moved));
  EXPECT_FALSE(fs::exists(plot));
}

TEST_F(RunFolderTest, AReportIsMovedWithItsRun) {
  run_training(config("run"));
  const fs::path report = folder_.path() / "run" / "report.html";
  std::ofstream(report) << kReportStart << "0.0\">";
  run_training(config("run"));
  EXPECT_TRUE(fs::exists(folder_.path() / "run.1" / "report.html"));
  EXPECT_FALSE(fs::exists(report));
}

TEST_F(RunFolderTest, AFolderInUseIsNotMovedAside) {
  run_training(config("run"));
  const fs::path run = folder_.path() / "run", before = fs::current_path();
  fs::current_path(run / "checkpoints");
  expect_refused(config("run"), false, {"the current folder is in it"});
  fs::current_path(before);
  Config own = config("run");
  own.file_name = (run / "config.toml").string();
  expect_refused(own, false, {"the config file is in it"});
  Config keeping = config("run");
  keeping.train.existing_run = ExistingRun::refuse;
  expect_refused(keeping, false, {"train.existing_run"});
}

TEST_F(RunFolderTest, AnEditedConfigStays) {
  run_training(config("run"));
  const fs::path file = folder_.path() / "run" / "config.toml";
  const std::string written = read_file(file);
  EXPECT_TRUE(may_replace_config(file));
  for (const std::string& edited : {written + "# mine\n", "# mine\n" + written, std::string("mine"), std::string()}) {
    std::ofstream(file) << edited;
    EXPECT_FALSE(may_replace_config(file)) << edited;
    run_training(config("run", 3), {.resume = true});
    EXPECT_EQ(read_file(file), edited);
  }
  std::ofstream(file) << written;
  run_training(config("run", 4), {.resume = true});
  EXPECT_NE(read_file(file), written);
}

// A copy by `cp -r run/* copy` has no mark, and one of an earlier version has none either.
TEST_F(RunFolderTest, ACopyWithoutTheMarkIsResumed) {
  run_training(config("run"));
  fs::remove_all(folder_.path() / "run" / ".heed");
  EXPECT_EQ(run_training(config("run", 4), {.resume = true}).steps, 4);
  EXPECT_TRUE(read_mark(folder_.path() / "run").has_value());
}

TEST_F(RunFolderTest, AStartThatFailedIsNoEarlierRun) {
  std::ofstream(folder_.path() / "file") << "mine";
  { const RunFolder folder(config("run"), false); }
  run_training(config("run"));
  EXPECT_FALSE(fs::exists(folder_.path() / "run.1"));
}

TEST_F(RunFolderTest, ALinkUnderTheNameOfAFileIsNotReplaced) {
  run_training(config("run"));
  for (const char* name : {"metrics.csv", "summary.json", "config.toml", "checkpoints/last.h5"}) {
    const fs::path file = folder_.path() / "run" / name, aside = folder_.path() / "aside";
    fs::rename(file, aside);
    fs::create_symlink(aside, file);
    const std::string before = read_file(aside);
    try {
      run_training(config("run", 4), {.resume = true});
      ADD_FAILURE() << "accepted " << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos) << error.what();
    }
    EXPECT_TRUE(fs::is_symlink(file));
    EXPECT_EQ(read_file(aside), before);
    fs::rename(aside, file);
  }
}

TEST_F(RunFolderTest, WhatAKilledProcessLeftIsRemoved) {
  run_training(config("run"));
  const fs::path run = folder_.path() / "run";
  for (const char* name : {".metrics.csv.heed-12", ".heed/.mark.heed-12", "checkpoints/.last.h5.heed-12"}) {
    std::ofstream(run / name) << "half";
  }
  run_training(config("run", 3), {.resume = true});
  for (const char* name : {".metrics.csv.heed-12", ".heed/.mark.heed-12", "checkpoints/.last.h5.heed-12"}) {
    EXPECT_FALSE(fs::exists(run / name)) << name;
  }
}

TEST_F(RunFolderTest, ALinkThatLeadsNowhereIsAnError) {
  fs::create_directory_symlink(folder_.path() / "nowhere", folder_.path() / "link");
  EXPECT_THROW(run_training(config("link")), ConfigError);
  EXPECT_THROW(run_training(config("link"), {.resume = true}), ConfigError);
  EXPECT_FALSE(fs::exists(folder_.path() / "nowhere"));
}

}  // namespace
}  // namespace heed::train
