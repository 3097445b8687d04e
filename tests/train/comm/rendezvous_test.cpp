// Ranks that find each other over TCP among those that are foreign, late, double or never come.
#include "train/comm/rendezvous.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <chrono>
#include <cstring>
#include <functional>

#include "tests/train/comm/heartbeat_path.hpp"
#include "tests/train/comm/tcp_fixture.hpp"
#include "tests/train/tiny.hpp"
#include "train/comm/backend.hpp"
#include "train/comm/tcp_socket.hpp"
#include "train/comm/watchdog.hpp"

namespace heed::comm {
namespace {

using data::Descriptor;
using test::ChildProcess;
using test::connected_to;
using test::free_port;
using test::launch_of;

constexpr double kLong = 60;  // of a rank that must not come near its timeout

// A process that joins, meets the others once, and says "joined" or what was thrown.
ChildProcess rank_of(
    const Launch& launch, double timeout_s = kLong, const std::function<void()>& before = [] {}) {
  return ChildProcess([=] {
    before();
    join_tcp_ranks(launch, timeout_s)->barrier();
    return std::string("joined");
  });
}

class Seconds {
 public:
  double passed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(); }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// A connection of a rank that rank 0 has answered.
Descriptor greeted(const Launch& launch) {
  Descriptor socket = connected_to(launch.port);
  const Greeting mine = greeting_of(launch);
  Greeting answer;
  send_all(socket.number(), &mine, sizeof(mine), 0);
  receive_all(socket.number(), &answer, sizeof(answer), 0);
  EXPECT_TRUE(answer.is_of_same_run(mine));
  EXPECT_EQ(answer.rank, 0);
  return socket;
}

TEST(Rendezvous, SilentConnectionsKeepNobodyWaiting) {
  const int port = free_port();
  const Seconds seconds;
  ChildProcess root = rank_of(launch_of(0, 2, port));
  std::vector<Descriptor> silent;
  for (int i = 0; i < 6; ++i) silent.push_back(connected_to(port));
  const Greeting half = greeting_of(launch_of(1, 2, port));
  send_all(silent[2].number(), &half, sizeof(half) / 2, 0);
  EXPECT_EQ(rank_of(launch_of(1, 2, port)).result(), "joined");
  EXPECT_EQ(root.result(), "joined");
  EXPECT_LT(seconds.passed(), 4);
}

TEST(Rendezvous, LetsARankGoThatTheWorldDoesNotHave) {
  const int port = free_port();
  ChildProcess root = rank_of(launch_of(0, 2, port));
  for (const int rank : {-1, 0, 2, 1'000'000}) {
    const Descriptor socket = connected_to(port);
    const Greeting strange = greeting_of(launch_of(rank, 2, port));
    send_all(socket.number(), &strange, sizeof(strange), 0);
    char answer[100];
    const timeval limit{.tv_sec = 5, .tv_usec = 0};
    setsockopt(socket.number(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(::recv(socket.number(), answer, sizeof(answer), MSG_WAITALL), 0) << "rank " << rank;
  }
  EXPECT_EQ(rank_of(launch_of(1, 2, port)).result(), "joined");
  EXPECT_EQ(root.result(), "joined");
}

// As scanners and health checks do, and another run that was given the same port.
TEST(Rendezvous, LetsForeignConnectionsGo) {
  const int port = free_port();
  ChildProcess root = rank_of(launch_of(0, 2, port));
  for (const char* said : {"", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    const Descriptor foreign = connected_to(port);
    send_all(foreign.number(), said, static_cast<int64_t>(strlen(said)), 0);
  }
  Launch other = launch_of(1, 2, port);
  other.run = "another run";
  other.job += " of another run";
  EXPECT_EQ(rank_of(other, 1).result(), "rank 1 looks for rank 0 at 127.0.0.1:" + std::to_string(port) +
                                            ", but another program has that port: it closes the connection; set "
                                            "MASTER_PORT to a free one, the same for all ranks");
  EXPECT_EQ(rank_of(launch_of(1, 2, port)).result(), "joined");
  EXPECT_EQ(root.result(), "joined");
}

TEST(Rendezvous, ALaterConnectionOfARankTakesThePlaceOfAnEarlierOne) {
  const int port = free_port();
  ChildProcess root = rank_of(launch_of(0, 3, port));
  const Descriptor abandoned = greeted(launch_of(1, 3, port));
  ChildProcess earlier = rank_of(launch_of(1, 3, port));
  Verdict verdict{};
  receive_all(abandoned.number(), &verdict, sizeof(verdict), 0);
  EXPECT_EQ(verdict, Verdict::replaced);
  ChildProcess later = rank_of(launch_of(1, 3, port));
  EXPECT_EQ(earlier.result(),
            "another process has connected as rank 1 after this one: two were started with RANK=1, "
            "WORLD_SIZE=3");
  EXPECT_EQ(rank_of(launch_of(2, 3, port)).result(), "joined");
  EXPECT_EQ(later.result(), "joined");
  EXPECT_EQ(root.result(), "joined");
}

TEST(Rendezvous, ARankThatEndsBeforeAllAreThereMayComeAgain) {
  const int port = free_port();
  ChildProcess root = rank_of(launch_of(0, 3, port));
  greeted(launch_of(1, 3, port));
  ChildProcess second = rank_of(launch_of(2, 3, port));
  usleep(300'000);  // in which the group would be complete with the rank that has ended
  EXPECT_EQ(rank_of(launch_of(1, 3, port)).result(), "joined");
  EXPECT_EQ(second.result(), "joined");
  EXPECT_EQ(root.result(), "joined");
}

TEST(Rendezvous, BothSidesRefuseAnotherWorld) {
  const int port = free_port();
  ChildProcess root = rank_of(launch_of(0, 2, port)), other = rank_of(launch_of(1, 3, port));
  const char* expected = "rank 1 was started with world size 3, rank 0 with 2";
  EXPECT_EQ(root.result(), expected);
  EXPECT_EQ(other.result(), expected);
}

TEST(Rendezvous, ARankLearnsThatRank0IsGone) {
  const int port = free_port();
  ChildProcess root = rank_of(launch_of(0, 3, port));
  const Descriptor earlier = greeted(launch_of(1, 3, port));
  ChildProcess first = rank_of(launch_of(1, 3, port));
  Verdict verdict{};  // by which rank 0 knows of the other
  receive_all(earlier.number(), &verdict, sizeof(verdict), 0);
  kill(root.process(), SIGKILL);
  EXPECT_EQ(first.result(), "rank 0 is gone: it has closed its connection");
}

// What has the port of rank 0 instead of it.
struct Occupant {
  const char* what;
  const char* answer;  // to a connection; nullptr: none, and it stays open
};

TEST(Rendezvous, NamesAPortThatAnotherProgramHas) {
  for (const Occupant& occupant : {Occupant{"does not answer", nullptr},
                                   {"closes the connection", ""},
                                   {"is not rank 0 of this run of heed", "HTTP/1.1 400 Bad Request\r\n\r\n"}}) {
    const int port = free_port();
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = test::local_address(port);
    address.sin_addr.s_addr = INADDR_ANY;
    ASSERT_EQ(::bind(listener.number(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listener.number(), 8), 0);
    ChildProcess answers([&] {
      while (occupant.answer != nullptr) {
        const Descriptor peer(::accept(listener.number(), nullptr, nullptr));
        Greeting greeting;
        receive_all(peer.number(), &greeting, sizeof(greeting), 1);
        send_all(peer.number(), occupant.answer, static_cast<int64_t>(strlen(occupant.answer)), 1);
      }
      return std::string();
    });
    const Seconds seconds;
    EXPECT_EQ(rank_of(launch_of(0, 2, port)).result(), "rank 0 cannot listen on port " + std::to_string(port) +
                                                           ": Address already in use; set MASTER_PORT to a free one");
    EXPECT_LT(seconds.passed(), 1);
    EXPECT_EQ(rank_of(launch_of(1, 2, port), 2).result(),
              "rank 1 looks for rank 0 at 127.0.0.1:" + std::to_string(port) +
                  ", but another program has that port: it " + occupant.what +
                  "; set MASTER_PORT to a free one, the same for all ranks");
    EXPECT_LT(seconds.passed(), 4);
    kill(answers.process(), SIGKILL);
  }
}

// And leaves nothing in shared memory.
TEST(Rendezvous, SaysWhoIsMissingAndWhereLongBeforeTheTimeout) {
  EXPECT_LE(seconds_to_notice(600), 10);
  for (const int rank : {0, 1}) {
    const test::TemporaryFolder folder;
    const auto output = folder.path() / "stderr";
    const int port = free_port();
    const std::string address = "127.0.0.1:" + std::to_string(port);
    const std::string result = rank_of(launch_of(rank, 3, port), 1, [=] {
                                 ::dup2(::open(output.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDERR_FILENO);
                               }).result();
    EXPECT_EQ(result, "[the child process ended with status 1792]") << "the watchdog ends it";
    EXPECT_FALSE(std::filesystem::exists(test::heartbeat_path(launch_of(rank, 3, port).job, 3)));
    const std::string variables = "; if no such process was started, RANK=" + std::to_string(rank) +
                                  ", WORLD_SIZE=3 may be left over: unset RANK and WORLD_SIZE\n";
    const std::string end = "heed: rank " + std::to_string(rank) +
                            ": waited 1 s (train.comm_timeout_s) for the TCP rendezvous; missing: rank " +
                            std::to_string(1 - rank) +
                            " (not started on this node), rank 2 (not started on this node)\n";
    EXPECT_EQ(test::read_file(output),
              (rank == 0 ? "heed: rank 0 waits for rank 1, rank 2 to connect to " + address
                         : "heed: rank 1 waits for rank 0 at " + address + " (Connection refused)") +
                  variables + end);
  }
}

// Limits this process to `more` further open files. A watchdog's thread runs once before the limit: when UBSan checks
// an object of a type for the first time, it opens a pipe, and without one it reports an invalid vptr.
void limit_open_files(rlim_t more) {
  {
    HeartbeatPage page("open_files_" + std::to_string(getpid()), 0, 1);
    const Watchdog watchdog(page, kLong);
  }
  const Descriptor next(::open("/dev/null", O_RDONLY));
  const rlim_t files = static_cast<rlim_t>(next.number()) + more;
  const rlimit limit{.rlim_cur = files, .rlim_max = files};
  setrlimit(RLIMIT_NOFILE, &limit);
}

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

// More connections than rank 0 may have open files: the oldest silent ones make room.
TEST(Rendezvous, SilentConnectionsDoNotUseUpTheOpenFiles) {
  const int port = free_port();
  ChildProcess root([=] {
    limit_open_files(8);
    const double before = processor_seconds();
    join_tcp_ranks(launch_of(0, 2, port), kLong)->barrier();
    return processor_seconds() - before < 0.5 ? std::string("joined") : std::string("was busy");
  });
  std::vector<Descriptor> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(connected_to(port));
  usleep(1'000'000);
  EXPECT_EQ(rank_of(launch_of(1, 2, port)).result(), "joined");
  EXPECT_EQ(root.result(), "joined");
}

TEST(Rendezvous, SaysThatThereAreTooFewOpenFiles) {
  const int port = free_port();
  ChildProcess root = rank_of(launch_of(0, 4, port), kLong, [] { limit_open_files(3); });
  std::vector<ChildProcess> others;
  for (int rank = 1; rank < 4; ++rank) others.push_back(rank_of(launch_of(rank, 4, port), 20));
  EXPECT_EQ(root.result(),
            "rank 0 cannot accept a connection on port " + std::to_string(port) +
                ": Too many open files; 2 of 3 other ranks are connected, each needs an open file (ulimit "
                "-n)");
  for (ChildProcess& other : others) kill(other.process(), SIGKILL);
}

}  // namespace
}  // namespace heed::comm
