#include "train/checkpoint/checkpoint_folder.hpp"

#include <unistd.h>

#include "tests/support/child_process.hpp"
#include "tests/train/checkpoint/checkpoint_samples.hpp"

namespace heed::train {
namespace {

using namespace test;
namespace fs = std::filesystem;

class CheckpointFolderTest : public testing::Test {
 protected:
  void save(CheckpointFolder& folder, std::initializer_list<int64_t> steps) {
    for (const int64_t step : steps) folder.save_last(sample_content(step));
  }
  std::vector<std::string> names() const { return names_in(checkpoints_); }
  void damage(const std::string& name) const { fs::resize_file(checkpoints_ / name, 1000); }
  int64_t step_in(const std::string& name) const { return load_checkpoint(checkpoints_ / name).integer("step"); }

  TemporaryFolder run_;
  const fs::path checkpoints_ = run_.path() / "checkpoints";
};

using Names = std::vector<std::string>;

TEST_F(CheckpointFolderTest, KeepsTheNewestThatWasReplacedAndARoundOne) {
  CheckpointFolder folder(run_.path(), 2);
  folder.prepare();
  save(folder, {5, 10});
  EXPECT_EQ(names(), (Names{"last.h5", "step-000005.h5"}));
  save(folder, {15, 1'000'000, 2'000'000});
  EXPECT_EQ(names(), (Names{"last.h5", "step-000010.h5", "step-1000000.h5"}));
  EXPECT_EQ(folder.earlier(),
            (std::vector<fs::path>{checkpoints_ / "step-1000000.h5", checkpoints_ / "step-000010.h5"}));
  EXPECT_EQ(step_in("last.h5"), 2'000'000);
  EXPECT_EQ(step_in("step-1000000.h5"), 1'000'000);
  EXPECT_EQ(step_in("step-000010.h5"), 10);
}

// The distance between two of them is at most twice what it must be, however long the run is.
TEST_F(CheckpointFolderTest, KeepsOthersSpreadOverTheRun) {
  constexpr int64_t kInterval = 20, kKept = 4;
  CheckpointFolder folder(run_.path(), kKept);
  folder.prepare();
  for (int64_t saves = 1; saves <= 64; ++saves) {
    save(folder, {kInterval * saves});
    const std::vector<fs::path> files = folder.earlier();
    ASSERT_EQ(static_cast<int64_t>(files.size()), std::min(saves - 1, kKept));
    if (saves == 1) continue;
    EXPECT_EQ(checkpoint_step(files.front()), kInterval * (saves - 1)) << "the newest";
    int64_t next = kInterval * saves, longest = 0;
    for (const fs::path& file : files) {
      longest = std::max(longest, next - *checkpoint_step(file));
      next = *checkpoint_step(file);
    }
    EXPECT_LE(std::max(longest, next), std::max(kInterval, 2 * kInterval * (saves - 1) / kKept)) << saves;
  }
  EXPECT_EQ(names(), (Names{"last.h5", "step-000320.h5", "step-000640.h5", "step-000960.h5", "step-001260.h5"}));
}

TEST_F(CheckpointFolderTest, ARebuiltStepReplacesNothing) {
  CheckpointFolder folder(run_.path(), 1);
  folder.prepare();
  save(folder, {5, 9});
  EXPECT_EQ(folder.save_earlier(sample_content(7)), checkpoints_ / "step-000007.h5");
  EXPECT_EQ(step_in("step-000007.h5"), 7);
  EXPECT_THROW(folder.save_earlier(sample_content(7)), CheckpointError);
}

TEST_F(CheckpointFolderTest, KeepsNoneWhereNoneIsWanted) {
  CheckpointFolder folder(run_.path(), 0);
  folder.prepare();
  save(folder, {1, 2, 3});
  folder.save_best(sample_content(2));
  EXPECT_EQ(names(), (Names{"best.h5", "last.h5"}));
  EXPECT_EQ(step_in("last.h5"), 3);
  EXPECT_EQ(step_in("best.h5"), 2);
}

// The kept one has bytes of its own: damage of the one does not reach the other.
TEST_F(CheckpointFolderTest, ADamagedLastFallsBackWithANotice) {
  CheckpointFolder folder(run_.path(), 2);
  folder.prepare();
  save(folder, {1, 2, 3});
  folder.save_best(sample_content(1));
  damage("last.h5");
  const LoadedCheckpoint loaded = CheckpointFolder(run_.path(), 2).load_newest();
  expect_same(loaded.content, sample_content(2));
  ASSERT_EQ(loaded.notices.size(), 2u);
  expect_text(loaded.notices[0], "cannot read checkpoint " + (checkpoints_ / "last.h5").string() + ": it is damaged");
  EXPECT_EQ(loaded.notices[1], "instead, " + (checkpoints_ / "step-000002.h5").string() + " of step 2 is taken");
}

// It may be whole, and would be replaced by the next save.
TEST_F(CheckpointFolderTest, AFileThatCannotBeReadIsAnError) {
  CheckpointFolder folder(run_.path(), 1);
  folder.prepare();
  save(folder, {1, 2});
  folder.save_best(sample_content(1));
  fs::permissions(run_.path(), fs::perms::all);
  for (const std::string name : {"last.h5", "best.h5"}) {
    fs::permissions(checkpoints_ / name, fs::perms::none);
    const std::string error = in_child([&]() -> std::string {
      if (::getuid() == 0 && ::setuid(65534) != 0) return "no other user";  // root may read everything
      return checkpoint_error([&] { CheckpointFolder(run_.path(), 1).load_newest(); });
    });
    expect_text(error,
                "cannot read checkpoint " + (checkpoints_ / name).string() + ": cannot open it: Permission denied");
    expect_text(error, "; make it readable, or move it out of the folder to go on without it");
    fs::permissions(checkpoints_ / name, fs::perms::all);
  }
}

TEST_F(CheckpointFolderTest, AWholeLastNeedsNoNotice) {
  CheckpointFolder folder(run_.path(), 1);
  folder.prepare();
  save(folder, {1, 2});
  damage("step-000001.h5");
  const LoadedCheckpoint loaded = CheckpointFolder(run_.path(), 1).load_newest();
  EXPECT_EQ(loaded.content.integer("step"), 2);
  EXPECT_EQ(loaded.content.file, (checkpoints_ / "last.h5").string());
  EXPECT_EQ(loaded.notices, Names{});
}

TEST_F(CheckpointFolderTest, TheOneWithTheMostStepsIsTaken) {
  CheckpointFolder folder(run_.path(), 3);
  folder.prepare();
  save(folder, {1, 2, 3, 4});
  fs::remove(folder.last());
  damage("step-000003.h5");
  EXPECT_EQ(folder.load_newest().content.integer("step"), 2);
  folder.save_best(sample_content(2));
  EXPECT_EQ(folder.load_newest().content.file, (checkpoints_ / "step-000002.h5").string());
  folder.save_best(sample_content(4));
  const LoadedCheckpoint loaded = folder.load_newest();
  EXPECT_EQ(loaded.content.file, folder.best().string());
  ASSERT_EQ(loaded.notices.size(), 3u);
  expect_text(loaded.notices[0], "last.h5: cannot open it: No such file or directory");
  expect_text(loaded.notices[1], "step-000003.h5: it is damaged");
}

TEST_F(CheckpointFolderTest, WithoutAWholeOneItStops) {
  CheckpointFolder folder(run_.path(), 1);
  expect_text(checkpoint_error([&] { folder.load_newest(); }), "there is no checkpoint in " + checkpoints_.string());
  folder.prepare();
  expect_text(checkpoint_error([&] { folder.load_newest(); }), "there is no checkpoint in " + checkpoints_.string());
  save(folder, {1, 2});
  folder.save_best(sample_content(1));
  for (const char* name : {"last.h5", "best.h5", "step-000001.h5"}) damage(name);
  const std::string error = checkpoint_error([&] { folder.load_newest(); });
  expect_text(error, "no checkpoint in " + checkpoints_.string() + " can be loaded: ");
  for (const char* name : {"last.h5: it is", "best.h5: it is", "step-000001.h5: it is"}) expect_text(error, name);
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST_F(CheckpointFolderTest, TemporariesAreNeverTakenAndRemovedBeforeARun) {
  CheckpointFolder folder(run_.path(), 1);
  EXPECT_EQ(folder.prepare(), Names{});
  save(folder, {1});
  fs::rename(folder.last(), checkpoints_ / ".last.h5.heed-12");
  write_file(checkpoints_ / ".step-000009.h5.heed-345", "half");
  write_file(checkpoints_ / "notes.txt", "mine");
  write_file(checkpoints_ / "step-9.h5", "mine");
  expect_text(checkpoint_error([&] { folder.load_newest(); }), "there is no checkpoint in ");
  EXPECT_EQ(folder.prepare(), (Names{".last.h5.heed-12", ".step-000009.h5.heed-345"}));
  EXPECT_EQ(names(), (Names{"notes.txt", "step-9.h5"}));
}

// A resumed earlier checkpoint starts another future; what is left of the first one must not be taken for newer.
TEST_F(CheckpointFolderTest, AGivenUpFutureIsRemoved) {
  CheckpointFolder folder(run_.path(), 3);
  folder.prepare();
  save(folder, {10, 20, 30, 40});
  damage("last.h5");
  damage("step-000030.h5");
  CheckpointFolder resumed(run_.path(), 3);
  EXPECT_EQ(resumed.load_newest().content.integer("step"), 20);
  save(resumed, {25});
  EXPECT_EQ(names(), (Names{"last.h5", "step-000010.h5", "step-000020.h5"}));
  EXPECT_EQ(step_in("last.h5"), 25);
  save(resumed, {30});
  EXPECT_EQ(names(), (Names{"last.h5", "step-000010.h5", "step-000020.h5", "step-000025.h5"}));
}

TEST_F(CheckpointFolderTest, AResumedRunKeepsWhatItResumedFrom) {
  CheckpointFolder folder(run_.path(), 1);
  folder.prepare();
  save(folder, {10});
  CheckpointFolder resumed(run_.path(), 1);
  resumed.prepare();
  EXPECT_EQ(resumed.load_newest().content.integer("step"), 10);
  save(resumed, {20});
  EXPECT_EQ(step_in("step-000010.h5"), 10);
}

TEST_F(CheckpointFolderTest, AFolderThatCannotBeWrittenIsAnErrorBeforeTheRun) {
  fs::permissions(run_.path(), fs::perms(0555));
  const auto prepare_as_user = [&] {
    return in_child([&]() -> std::string {
      if (::getuid() == 0 && ::setuid(65534) != 0) return "no other user";  // root may write everywhere
      CheckpointFolder(run_.path(), 0).prepare();
      return "no error";
    });
  };
  expect_text(prepare_as_user(), "cannot make the folder " + checkpoints_.string() + ": Permission denied");
  fs::permissions(run_.path(), fs::perms(0755));
  fs::create_directory(checkpoints_);
  fs::permissions(checkpoints_, fs::perms(0555));
  const std::string error = prepare_as_user();
  expect_text(error, "cannot write checkpoints to " + checkpoints_.string() + ": ");
  expect_text(error, "Permission denied; choose another folder with train.run_dir");

  fs::remove(checkpoints_);
  write_file(checkpoints_, "a file");
  expect_text(checkpoint_error([&] { CheckpointFolder(run_.path(), 0).prepare(); }),
              "cannot make the folder " + checkpoints_.string());
}

TEST_F(CheckpointFolderTest, ACheckpointWithoutAStepIsNoneOfARun) {
  CheckpointFolder folder(run_.path(), 0);
  folder.prepare();
  CheckpointContent content = sample_content();
  content.integers["step"] = -1;
  expect_text(checkpoint_error([&] { folder.save_last(content); }), "integers/step is -1");
  content.integers.erase("step");
  expect_text(checkpoint_error([&] { folder.save_best(content); }), "dataset integers/step is missing");
  EXPECT_EQ(names(), Names{});
  save_checkpoint(folder.last(), content);
  expect_text(checkpoint_error([&] { folder.load_newest(); }), "last.h5: dataset integers/step is missing");
}

}  // namespace
}  // namespace heed::train
