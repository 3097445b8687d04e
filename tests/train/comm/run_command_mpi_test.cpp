// How a command of several ranks ends. Run by mpirun with 1, 2 and 4 ranks.
#include "train/commands/run_command.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "autograd/core/check.hpp"
#include "tests/train/comm/ranks_fixture.hpp"
#include "train/comm/agreement.hpp"

namespace heed::test {
namespace {

int run_ranked(const train::RankedCommand& command) {
  return train::run_on_ranks([] { return tiny_config({}); }, command);
}

TEST(RankedCommand, AllRanksEndWithTheLargestCode) {
  EXPECT_EQ(run_ranked([](const train::Config&, comm::ProcessGroup&) { return 0; }), 0);
  const int last = all_ranks().size() - 1;
  EXPECT_EQ(run_ranked([&](const train::Config&, comm::ProcessGroup& ranks) { return ranks.rank() == last ? 143 : 0; }),
            143);
}

constexpr auto kSaving = std::chrono::milliseconds(600);

// The root is the last to end its command, as if it saved a large checkpoint, and meanwhile the signal comes again.
TEST(RankedCommand, NoRankEndsBeforeTheOthersHaveSaved) {
  const bool has_others = all_ranks().size() > 1;
  const auto begin = std::chrono::steady_clock::now();
  std::thread second_signal;
  const int code = run_ranked([&](const train::Config&, comm::ProcessGroup& ranks) {
    if (ranks.is_root()) {
      std::this_thread::sleep_for(kSaving);
    } else {
      second_signal = std::thread([] {
        std::this_thread::sleep_for(kSaving / 2);
        kill(getpid(), SIGTERM);
      });
    }
    return 143;
  });
  if (second_signal.joinable()) second_signal.join();
  EXPECT_EQ(code, 143);
  if (has_others) {
    EXPECT_GE(std::chrono::steady_clock::now() - begin, kSaving);
  }
}

TEST(RankedCommand, AnErrorThatAllKnowOfIsTheCodeOfAll) {
  const bool is_alone = all_ranks().size() == 1;
  const auto refuse = [](const train::Config&, comm::ProcessGroup& ranks) -> int {
    comm::check_on_all_ranks(ranks, [&] {
      if (ranks.rank() == ranks.size() - 1) throw DataError("torn");
    });
    return 0;
  };
  if (is_alone) {
    EXPECT_THROW(run_ranked(refuse), DataError);
  } else {
    EXPECT_EQ(run_ranked(refuse), 3);
  }
}

}  // namespace
}  // namespace heed::test
