#include "train/comm/backend.hpp"

#include <cstring>

#include "tests/train/comm/tcp_fixture.hpp"

namespace heed::comm {
namespace {

using test::ChildProcess;
using test::free_port;
using test::launch_of;

std::vector<std::string> run(int size, const std::function<std::string(ProcessGroup&)>& act) {
  const int port = free_port();
  std::vector<ChildProcess> processes;
  for (int rank = size - 1; rank >= 0; --rank) {  // the root last: the others wait for it
    processes.emplace_back([=] { return act(*join_tcp_ranks(launch_of(rank, size, port), 20)); });
  }
  std::vector<std::string> results(static_cast<size_t>(size));
  for (int rank = 0; rank < size; ++rank) results[static_cast<size_t>(rank)] = processes[size - 1 - rank].result();
  return results;
}

TEST(TcpProcessGroup, GatherInOrder) {
  for (const int size : {2, 5}) {
    std::string expected;
    for (int rank = 0; rank < size; ++rank) expected += std::to_string(rank * rank) + " ";
    for (const std::string& result : run(size, [](ProcessGroup& ranks) {
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

TEST(TcpProcessGroup, GatherMuch) {
  for (const std::string& result : run(3, [](ProcessGroup& ranks) {
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

TEST(TcpProcessGroup, SayThatAPeerIsGone) {
  const std::vector<std::string> results = run(3, [](ProcessGroup& ranks) {
    if (ranks.rank() == 1) test::end_process();
    ranks.barrier();
    return std::string("went on");
  });
  EXPECT_NE(results[0].find("rank 1 is gone"), std::string::npos) << results[0];
  EXPECT_NE(results[2].find("rank 0 is gone"), std::string::npos) << results[2];
}

}  // namespace
}  // namespace heed::comm
