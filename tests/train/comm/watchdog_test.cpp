#include "train/comm/watchdog.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "tests/support/child_process.hpp"
#include "tests/train/comm/heartbeat_path.hpp"
#include "tests/train/tiny.hpp"

namespace heed::comm {
namespace {

using test::ChildProcess;

std::string job() { return "test " + std::to_string(getpid()); }

// Rank `rank` waits for `what` in step 7 until the watchdog ends it; what it wrote to stderr goes to a file.
ChildProcess waiting_rank(const std::string& name, int rank, int size, const std::filesystem::path& output,
                          const std::function<void()>& on_timeout = {}) {
  return ChildProcess([=] {
    ::dup2(::open(output.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDERR_FILENO);
    HeartbeatPage page(name, rank, size);
    Watchdog watchdog(page, 0.5);
    watchdog.set_step(7);
    if (on_timeout) watchdog.on_timeout(on_timeout);
    const Watchdog::Wait wait(watchdog, "the sums");
    sleep(20);
    return std::string("not ended");
  });
}

// Does as it is told, and never waits for others.
ChildProcess other_rank(const std::string& name, int rank, int size, const std::function<void(HeartbeatPage&)>& act) {
  return ChildProcess([=] {
    HeartbeatPage page(name, rank, size);
    act(page);
    return std::string();
  });
}

constexpr const char* kExit7 = "[the child process ended with status 1792]";

TEST(Watchdog, NamesARankThatNeverCame) {
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  EXPECT_EQ(waiting_rank(job(), 0, 2, output).result(), kExit7);
  EXPECT_EQ(test::read_file(output),
            "heed: rank 0, step 7: waited 0.5 s (train.comm_timeout_s) for the sums; missing: rank 1 (not started on "
            "this node)\n");
  HeartbeatPage(job(), 0, 2).unlink();
}

TEST(Watchdog, NamesARankThatIsBusyInAnEarlierStepAndReportsOnce) {
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  ChildProcess busy = other_rank(job(), 2, 3, [](HeartbeatPage& page) {
    page.set_step(6);
    sleep(3);
  });
  ChildProcess first = waiting_rank(job(), 0, 3, output), second = waiting_rank(job(), 1, 3, output);
  const std::string number = std::to_string(busy.process());
  EXPECT_EQ(first.result(), kExit7);
  EXPECT_EQ(second.result(), kExit7);
  const std::string text = test::read_file(output);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find("missing: rank 2 (last seen in step 6, process " + number + " is busy)"), std::string::npos)
      << text;
  HeartbeatPage(job(), 0, 3).unlink();
}

TEST(Watchdog, TellsStoppedFromEnded) {
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  ChildProcess stopped = other_rank(job(), 1, 3, [](HeartbeatPage& page) {
    page.begin_wait();  // it has come, and yet keeps the others waiting
    raise(SIGSTOP);
  });
  other_rank(job(), 2, 3, [](HeartbeatPage& page) {
    page.set_step(4);
    test::end_process();
  }).result();
  EXPECT_EQ(waiting_rank(job(), 0, 3, output).result(), kExit7);
  kill(stopped.process(), SIGCONT);
  const std::string text = test::read_file(output);
  EXPECT_NE(text.find("rank 1 (last seen before the first step, process " + std::to_string(stopped.process()) +
                      " is stopped)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 2 (last seen in step 4"), std::string::npos) << text;
  EXPECT_NE(text.find(" has ended)"), std::string::npos) << text;
  HeartbeatPage(job(), 0, 3).unlink();
}

// One that has come to earlier waits, not to this one.
TEST(Watchdog, NamesARankThatIsOneWaitBehind) {
  const std::string name = job();  // of this process, for its children
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  ChildProcess behind = other_rank(name, 1, 2, [](HeartbeatPage& page) {
    page.begin_wait();
    page.end_wait();
    sleep(3);
  });
  EXPECT_EQ(test::in_child([&] {
              ::dup2(::open(output.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
              HeartbeatPage page(name, 0, 2);
              Watchdog watchdog(page, 0.5);
              { const Watchdog::Wait first(watchdog, "the data"); }
              const Watchdog::Wait second(watchdog, "the sums");
              sleep(20);
              return std::string("not ended");
            }),
            kExit7);
  EXPECT_NE(test::read_file(output).find("missing: rank 1 (last seen before the first step"), std::string::npos)
      << test::read_file(output);
  HeartbeatPage(name, 0, 2).unlink();
}

// Both ranks wait, and all of them are on this node: no rank is missing.
TEST(Watchdog, SaysThatAllRanksHaveComeOnOneNode) {
  const std::string name = job();
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  const ChildProcess other = other_rank(name, 1, 2, [](HeartbeatPage& page) {
    page.begin_wait();
    sleep(3);
  });
  EXPECT_EQ(waiting_rank(name, 0, 2, output).result(), kExit7);
  EXPECT_NE(test::read_file(output).find("missing: none, all ranks are alive and have reached this wait"),
            std::string::npos)
      << test::read_file(output);
  HeartbeatPage(name, 0, 2).unlink();
}

TEST(Watchdog, NamesNoRankOfAnotherNode) {
  const std::string name = job();  // of this process, for its children
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  EXPECT_EQ(test::in_child([&] {
              ::dup2(::open(output.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
              HeartbeatPage page(name, 0, 2);
              Watchdog watchdog(page, 0.5);
              watchdog.set_elsewhere({false, true});
              const Watchdog::Wait wait(watchdog, "the sums");
              sleep(20);
              return std::string("not ended");
            }),
            kExit7);
  EXPECT_NE(
      test::read_file(output).find("missing: none on this node, so a rank of another node or the network between them"),
      std::string::npos)
      << test::read_file(output);
  HeartbeatPage(name, 0, 2).unlink();
}

TEST(Watchdog, ReportsAlsoWhereAKilledJobOfTheSameNameHadReported) {
  const std::string name = job();  // of this process, for its children
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  test::in_child([&]() -> std::string {
    HeartbeatPage left(name, 0, 2);
    left.claim_report();
    test::end_process();
  });
  EXPECT_EQ(waiting_rank(name, 0, 2, output).result(), kExit7);
  EXPECT_NE(test::read_file(output), "");
  HeartbeatPage(name, 0, 2).unlink();
}

// A machine that is suspended for longer than any patience.
TEST(RunningClock, HardlyCountsTheTimeOfAStoppedProcess) {
  ChildProcess stopped([] {
    RunningClock clock;
    raise(SIGSTOP);
    return std::string(clock.seconds() < 2.1 ? "hardly" : "all of it");
  });
  sleep(3);
  kill(stopped.process(), SIGCONT);
  EXPECT_EQ(stopped.result(), "hardly");
}

TEST(Watchdog, RunsWhatInterruptsALibrary) {
  const test::TemporaryFolder folder;
  const auto marker = folder.path() / "interrupted";
  const auto touch = [marker] { ::close(::open(marker.c_str(), O_CREAT | O_WRONLY, 0600)); };
  EXPECT_EQ(waiting_rank(job(), 0, 2, folder.path() / "stderr", touch).result(), kExit7);
  EXPECT_TRUE(std::filesystem::exists(marker));
  HeartbeatPage(job(), 0, 2).unlink();
}

TEST(Watchdog, EndsAlsoWhereTheLibraryCannotBeInterrupted) {
  const test::TemporaryFolder folder;
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(waiting_rank(job(), 0, 2, folder.path() / "stderr", [] { sleep(20); }).result(), kExit7);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "it waited for the interruption";
}

TEST(Watchdog, EndsAWaitWhereALibraryKnowsOfAnError) {
  const test::TemporaryFolder folder;
  const auto output = folder.path() / "stderr";
  EXPECT_EQ(test::in_child([&] {
              ::dup2(::open(output.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
              HeartbeatPage page(job(), 0, 2);
              Watchdog watchdog(page, 60);
              watchdog.ask_for_errors([] { return std::string("the link is down"); });
              const Watchdog::Wait wait(watchdog, "the sums");
              sleep(20);
              return std::string("not ended");
            }),
            kExit7);
  EXPECT_EQ(test::read_file(output), "heed: rank 0: the link is down\n");
}

// A job that is suspended for longer than the timeout goes on when it is continued.
TEST(Watchdog, DoesNotCountTheTimeOfAStoppedProcess) {
  ChildProcess stopped([] {
    HeartbeatPage page(job(), 0, 2);
    page.unlink();
    Watchdog watchdog(page, 1);
    const Watchdog::Wait wait(watchdog, "the sums");
    usleep(100'000);
    raise(SIGSTOP);
    usleep(300'000);
    return std::string("alive");
  });
  sleep(3);
  kill(stopped.process(), SIGCONT);
  EXPECT_EQ(stopped.result(), "alive");
}

TEST(Watchdog, LetsShortWaitsPass) {
  EXPECT_EQ(test::in_child([] {
              HeartbeatPage page(job(), 0, 2);
              page.unlink();
              Watchdog watchdog(page, 0.3);
              for (int i = 0; i < 8; ++i) {
                const Watchdog::Wait wait(watchdog, "the sums");
                usleep(100'000);
              }
              sleep(1);  // no wait: this rank may be busy for as long as it likes
              return std::string("alive");
            }),
            "alive");
}

TEST(HeartbeatPage, LeavesNothingBehind) {
  const std::filesystem::path path = test::heartbeat_path(job(), 2);
  {
    HeartbeatPage page(job(), 0, 2);
    EXPECT_TRUE(std::filesystem::exists(path));
    page.unlink();
    EXPECT_FALSE(std::filesystem::exists(path));
    page.set_step(3);  // the page itself stays until the end
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  { const HeartbeatPage overlapped(job(), 0, 2); }
  EXPECT_FALSE(std::filesystem::exists(path)) << "a rank that fails before all are here takes the name away";
}

}  // namespace
}  // namespace heed::comm
