// Saves that do not come to their end: the file is then the one before, or the new one, always whole.
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "data/io/atomic_file.hpp"
#include "tests/support/child_process.hpp"
#include "tests/train/checkpoint/checkpoint_samples.hpp"

namespace heed::train {
namespace {

using namespace test;
namespace fs = std::filesystem;

// About 1 MB, every element says the step.
CheckpointContent content_of_step(int64_t step) {
  CheckpointContent content;
  content.tensors["weights"] = full({256, 1024}, DType::f32, static_cast<double>(step));
  content.integers["step"] = step;
  content.texts["step"] = std::to_string(step);
  return content;
}

struct Progress {
  std::atomic<int64_t> begun, done;
};

[[noreturn]] void save_until_killed(const fs::path& path, Progress& progress) {
  for (int64_t step = progress.done + 1;; ++step) {
    const CheckpointContent content = content_of_step(step);
    progress.begun = step;
    save_checkpoint(path, content);
    progress.done = step;
  }
}

TEST(CheckpointInterruptTest, AKillLeavesThePreviousOrTheNewFile) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "last.h5";
  void* const shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  Progress& progress = *new (shared) Progress{0, 0};
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) save_checkpoint(path, content_of_step(0));
  // The kills fall into the first three saves of each process, or before them.
  const std::chrono::duration<double> three_saves = std::chrono::steady_clock::now() - start;

  std::mt19937 random(1);
  int killed_while_writing = 0;
  for (int kill = 0; kill < 100; ++kill) {
    progress.begun = progress.done.load();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_until_killed(path, progress);
    std::this_thread::sleep_for(three_saves * std::uniform_real_distribution<>(0, 1)(random));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself";

    const CheckpointContent loaded = load_checkpoint(path);
    const int64_t step = loaded.integer("step");
    EXPECT_TRUE(step == progress.done || step == progress.begun)
        << step << " after " << progress.done << ", while saving " << progress.begun;
    expect_same(loaded, content_of_step(step));
    for (const std::string& name : names_in(folder.path())) {
      EXPECT_TRUE(name == "last.h5" || data::is_temporary_name(name)) << name;
      if (name == "last.h5") continue;
      ++killed_while_writing;
      fs::remove(folder.path() / name);
    }
    progress.done = step;
  }
  EXPECT_GT(progress.done, 0) << "no save was ever finished";
  EXPECT_GT(killed_while_writing, 0) << "no kill came while a file was being written";
  ::munmap(shared, sizeof(Progress));
}

// A save that must fail, in a process of its own after `prepare`: gives the error, and checks there that the old file
// is untouched and alone.
std::string failing_save(const fs::path& path, const std::function<std::string()>& prepare) {
  return in_child([&] {
    const std::string problem = prepare();
    if (!problem.empty()) return problem;
    if (!fs::exists(path)) save_checkpoint(path, sample_content());
    const std::string before = read_file(path);
    const std::string error = checkpoint_error([&] { save_checkpoint(path, content_of_step(1)); });
    if (read_file(path) != before) return "the old file was changed; " + error;
    if (names_in(path.parent_path()).size() != 1) return "a temporary was left; " + error;
    expect_same(load_checkpoint(path), sample_content());
    return testing::Test::HasFailure() ? "the old file holds something else; " + error : error;
  });
}

std::string limit_file_size(void (*on_signal)(int)) {
  ::signal(SIGXFSZ, on_signal);
  const rlimit limit{16'384, 16'384};
  return ::setrlimit(RLIMIT_FSIZE, &limit) == 0 ? "" : "no limit";
}

TEST(CheckpointInterruptTest, ASizeLimitIsAnErrorWhateverTheSignalDoes) {
  for (const auto on_signal : {SIG_IGN, SIG_DFL}) {
    const TemporaryFolder folder;
    const fs::path path = folder.path() / "last.h5";
    save_checkpoint(path, sample_content());
    const std::string error = failing_save(path, [&] { return limit_file_size(on_signal); });
    expect_text(error, "cannot write checkpoint " + path.string() + ": the last ");
    expect_text(error, " bytes cannot be written: File too large");
    EXPECT_EQ(error.find('['), std::string::npos) << error;
  }
}

// Gives this process a view of the file system of its own; without root by a user namespace.
bool may_mount_here() {
  const std::string user = std::to_string(::getuid()), group = std::to_string(::getgid());
  if (::unshare(CLONE_NEWNS) == 0) return true;
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << user + " " + user + " 1";
  std::ofstream("/proc/self/gid_map") << group + " " + group + " 1";
  return true;
}

// A small disk that only this process sees.
std::string mount_small(const fs::path& folder) {
  const bool mounted = may_mount_here() && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                       ::mount("heed-test", folder.c_str(), "tmpfs", 0, "size=128k") == 0;
  return mounted ? "" : "skip: no disk can be mounted here";
}

TEST(CheckpointInterruptTest, AFullDiskIsAnError) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "last.h5";
  const std::string error = failing_save(path, [&] { return mount_small(folder.path()); });
  if (error.starts_with("skip")) GTEST_SKIP() << error;
  expect_text(error, "cannot write checkpoint " + path.string() + ": the last ");
  expect_text(error, " bytes cannot be written: No space left on device");
}

TEST(CheckpointInterruptTest, APartThatCannotBeMadeLeavesTheOldFile) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "last.h5";
  write_file(path, "old");
  EXPECT_THROW(data::write_file_durably(path, 8,
                                        [](const data::WriteAt& write) {
                                          write(0, "part");
                                          throw MemoryError("none");
                                        }),
               MemoryError);
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"last.h5"});
}

TEST(CheckpointInterruptTest, AFolderThatTakesNoFilesIsAnError) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "last.h5";
  save_checkpoint(path, sample_content());
  fs::permissions(path, fs::perms::all);
  fs::permissions(folder.path(), fs::perms(0555));
  const std::string error = failing_save(path, [&] {
    // Root may write everywhere.
    return ::getuid() == 0 && ::setuid(65534) != 0 ? "no other user" : "";
  });
  fs::permissions(folder.path(), fs::perms(0755));
  expect_text(error, "cannot write checkpoint " + path.string() + ": no new file can be made in its folder: ");
  expect_text(error, "Permission denied");
}

TEST(CheckpointInterruptTest, AMissingFolderIsAnError) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "none" / "last.h5";
  const std::string error = checkpoint_error([&] { save_checkpoint(path, sample_content()); });
  expect_text(error, "cannot write checkpoint " + path.string() + ": ");
  expect_text(error, "No such file or directory");
}

TEST(CheckpointInterruptTest, AFolderInThePlaceOfTheFileIsAnError) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "last.h5";
  fs::create_directory(path);
  const std::string error = checkpoint_error([&] { save_checkpoint(path, sample_content()); });
  expect_text(error, "cannot take the place of the old file: Is a directory");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"last.h5"});
}

TEST(CheckpointInterruptTest, NamesOfTemporaries) {
  for (const char* name : {".last.h5.heed-1", ".best.h5.heed-31415", ".a.heed-1.heed-2"})
    EXPECT_TRUE(data::is_temporary_name(name));
  for (const char* name :
       {"last.h5", "last.h5.heed-1", ".last.h5.heed-", ".last.h5.heed-1a", ".heed-1", "heed-1", ".a.heed-1.h5"}) {
    EXPECT_FALSE(data::is_temporary_name(name)) << name;
  }
}

}  // namespace
}  // namespace heed::train
