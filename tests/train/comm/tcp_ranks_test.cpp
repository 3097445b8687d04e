#include "train/comm/tcp_ranks.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "autograd/core/check.hpp"
#include "tests/support/child_process.hpp"

namespace heed::comm {
namespace {

using test::ChildProcess;

// Free when it was looked for.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(socket);
  return ntohs(address.sin_port);
}

Launch launch_of(int rank, int size, int port) {
  Launch launch;
  launch.launcher = "torchrun";
  launch.rank = rank;
  launch.size = size;
  launch.address = "127.0.0.1";
  launch.port = port;
  launch.job = "port " + std::to_string(port);
  return launch;
}

std::vector<std::string> run(int size, const std::function<std::string(Ranks&)>& act) {
  const int port = free_port();
  std::vector<ChildProcess> processes;
  for (int rank = size - 1; rank >= 0; --rank) {  // the root last: the others wait for it
    processes.emplace_back([=] { return act(*join_tcp_ranks(launch_of(rank, size, port), 20)); });
  }
  std::vector<std::string> results(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) results[static_cast<size_t>(rank)] = processes[size - 1 - rank].result();
  return results;
}

TEST(TcpRanks, GatherInOrder) {
  for (const int size : {2, 5}) {
    std::string expected;
    for (int rank = 0; rank < size; ++rank) expected += std::to_string(rank * rank) + " ";
    for (const std::string& result : run(size, [](Ranks& ranks) {
           std::string text;
           for (const int64_t value : ranks.gather(int64_t{ranks.rank()} * ranks.rank())) {
             text += std::to_string(value) + " ";
           }
           return text;
         })) {
      EXPECT_EQ(result, expected);
    }
  }
}

TEST(TcpRanks, GatherMuch) {
  for (const std::string& result : run(3, [](Ranks& ranks) {
         const std::string mine(static_cast<size_t>(3'000'000 + ranks.rank()), static_cast<char>('a' + ranks.rank()));
         const std::vector<std::string> all = ranks.gather_texts(mine);
         ranks.barrier();
         for (size_t rank = 0; rank < all.size(); ++rank) {
           if (all[rank] != std::string(3'000'000 + rank, static_cast<char>('a' + rank))) return std::string("wrong");
         }
         return std::string("right");
       })) {
    EXPECT_EQ(result, "right");
  }
}

TEST(TcpRanks, SayThatAPeerIsGone) {
  const std::vector<std::string> results = run(3, [](Ranks& ranks) {
    if (ranks.rank() == 1) test::end_process();
    ranks.barrier();
    return std::string("went on");
  });
  EXPECT_NE(results[0].find("rank 1 is gone"), std::string::npos) << results[0];
  EXPECT_NE(results[2].find("rank 0 is gone"), std::string::npos) << results[2];
}

// As scanners and health checks do.
TEST(TcpRanks, LetStrangersGo) {
  const int port = free_port();
  ChildProcess root([=] {
    const auto ranks = join_tcp_ranks(launch_of(0, 2, port), 20);
    ranks->barrier();
    return std::string("joined");
  });
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  for (const char* said : {"", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"}) {
    int stranger = -1;
    do {
      if (stranger >= 0) ::close(stranger);
      usleep(10'000);
      stranger = ::socket(AF_INET, SOCK_STREAM, 0);
    } while (::connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0);
    EXPECT_EQ(::send(stranger, said, strlen(said), MSG_NOSIGNAL), static_cast<ssize_t>(strlen(said)));
    ::close(stranger);
  }
  EXPECT_EQ(test::in_child([=] {
              Launch other = launch_of(1, 2, port);
              other.run = "another run";
              other.job += " of another run";
              join_tcp_ranks(other, 0.5);
              return std::string("joined");
            }),
            "[the child process ended with status 1792]");
  const std::string second = test::in_child([=] {
    const auto ranks = join_tcp_ranks(launch_of(1, 2, port), 20);
    ranks->barrier();
    return std::string("joined");
  });
  EXPECT_EQ(second, "joined");
  EXPECT_EQ(root.result(), "joined");
}

TEST(TcpRanks, RefuseAnotherWorld) {
  const int port = free_port();
  ChildProcess root([=] {
    join_tcp_ranks(launch_of(0, 2, port), 20);
    return std::string("joined");
  });
  ChildProcess other([=] {
    join_tcp_ranks(launch_of(1, 3, port), 20);
    return std::string("joined");
  });
  EXPECT_EQ(root.result(), "rank 1 was started in a world of 3, rank 0 in one of 2");
  kill(other.process(), SIGTERM);  // it would look for another rank 0 until its timeout
  EXPECT_NE(other.result(), "joined");
}

TEST(TcpRanks, NameAPortThatIsTaken) {
  const int port = free_port();
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(socket, 1), 0);
  const std::string result = test::in_child([=] {
    join_tcp_ranks(launch_of(0, 2, port), 20);
    return std::string("joined");
  });
  ::close(socket);
  EXPECT_EQ(result, "rank 0 cannot listen on port " + std::to_string(port) +
                        ": Address already in use; set MASTER_PORT to a free one");
}

}  // namespace
}  // namespace heed::comm
