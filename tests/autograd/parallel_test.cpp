#include "autograd/cpu/parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "autograd/core/check.hpp"

namespace heed::test {
namespace {

class Parallel : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { cpu::set_max_threads(GetParam()); }
  void TearDown() override { cpu::set_max_threads(before_); }

  const int before_ = cpu::max_threads();
};

struct Ranges {
  std::mutex mutex;
  std::vector<std::pair<int64_t, int64_t>> list;
  void add(int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    list.emplace_back(begin, end);
  }
};

TEST_P(Parallel, ForCoversEachIndexOnceInRangesOfTheGrain) {
  for (const int64_t grain : {1, 2, 7, 16}) {
    for (int64_t n = 0; n <= 4 * grain * GetParam() + 2; ++n) {
      Ranges ranges;
      std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
      cpu::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
        ranges.add(begin, end);
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& count : visits) ASSERT_EQ(count, 1) << n << " by " << grain;
      ASSERT_LE(ranges.list.size(), static_cast<size_t>(GetParam()));
      for (const auto& [begin, end] : ranges.list) {
        ASSERT_TRUE(end - begin >= grain || ranges.list.size() == 1) << n << " by " << grain << ": " << end - begin;
      }
    }
  }
}

TEST_P(Parallel, SmallWorkStaysOnTheCallingThread) {
  const std::thread::id caller = std::this_thread::get_id();
  int calls = 0;
  cpu::parallel_for(199, 100, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(std::this_thread::get_id(), caller);
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 199);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

TEST_P(Parallel, LargeWorkIsShared) {
  Ranges ranges;
  cpu::parallel_for(1000, 1, [&](int64_t begin, int64_t end) { ranges.add(begin, end); });
  EXPECT_EQ(ranges.list.size(), static_cast<size_t>(cpu::max_threads()));
}

TEST_P(Parallel, TasksRunOnceEach) {
  for (const int64_t n : {0, 1, 2, 3, 5, 100, 1001}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(n));
    cpu::parallel_tasks(n, n, [&](int64_t i, int64_t) { ++visits[static_cast<size_t>(i)]; });
    for (const auto& count : visits) ASSERT_EQ(count, 1) << n;
  }
}

// What a kernel has as scratch memory of a thread must not be another's at the same time.
TEST_P(Parallel, TasksKnowTheirThread) {
  for (const int64_t most : {1, 2, 3, 100}) {
    const int64_t threads = std::min<int64_t>({most, cpu::max_threads(), 40});
    std::vector<std::atomic<int>> busy(static_cast<size_t>(threads));
    std::atomic<int> wrong = 0;
    cpu::parallel_tasks(40, most, [&](int64_t, int64_t thread) {
      if (thread < 0 || thread >= threads) {
        ++wrong;
        return;
      }
      if (busy[static_cast<size_t>(thread)]++ != 0) ++wrong;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      --busy[static_cast<size_t>(thread)];
    });
    EXPECT_EQ(wrong, 0) << most;
  }
}

// The first thread is held up in its first task until the others have done all that it would have come to.
TEST_P(Parallel, TasksOfABusyThreadAreTakenOver) {
  std::atomic<int> there = 0;
  cpu::parallel_for(GetParam(), 1, [&](int64_t, int64_t) { ++there; });
  if (there < 2 || std::getenv("OMP_THREAD_LIMIT") != nullptr || std::getenv("OMP_DYNAMIC") != nullptr) {
    GTEST_SKIP() << "there may be nobody else";
  }
  constexpr int64_t kTasks = 24;
  std::atomic<int64_t> others = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  cpu::parallel_tasks(kTasks, kTasks, [&](int64_t i, int64_t) {
    if (i > 0) ++others;
    while (i == 0 && others < kTasks - 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  EXPECT_LT(std::chrono::steady_clock::now(), end);
}

TEST_P(Parallel, NestedWorkStaysOnItsThread) {
  std::atomic<int64_t> visits = 0, elsewhere = 0;
  const auto nested = [&] {
    const std::thread::id thread = std::this_thread::get_id();
    cpu::parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
      if (std::this_thread::get_id() != thread) ++elsewhere;
      visits += end - begin;
    });
    cpu::parallel_tasks(10, 10, [&](int64_t, int64_t) {
      if (std::this_thread::get_id() != thread) ++elsewhere;
      ++visits;
    });
  };
  const int64_t n = 16 * GetParam();
  cpu::parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) nested();
  });
  EXPECT_EQ(visits, n * 1010);
  cpu::parallel_tasks(n, n, [&](int64_t, int64_t) { nested(); });
  EXPECT_EQ(visits, 2 * n * 1010);
  EXPECT_TRUE(GetParam() == 1 || elsewhere == 0);  // with one thread the outer work is not parallel
}

TEST_P(Parallel, SeveralThreadsMayCall) {
  std::atomic<int64_t> sum = 0;
  std::vector<std::thread> callers;
  for (int id = 0; id < 3; ++id) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        cpu::parallel_for(100, 1, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) sum += i;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 3 * 50 * 4950);
}

INSTANTIATE_TEST_SUITE_P(Threads, Parallel, testing::Values(1, 2, 3, 4),
                         [](const auto& item) { return std::to_string(item.param); });

TEST(ParallelSettings, NumberOfThreads) {
  if (std::getenv("OMP_THREAD_LIMIT") != nullptr) GTEST_SKIP() << "the system limits the threads";
  const int before = cpu::max_threads();
  cpu::set_max_threads(3);
  EXPECT_EQ(cpu::max_threads(), 3);
  cpu::set_max_threads(before);
  for (const int threads : {0, -1}) EXPECT_THROW(cpu::set_max_threads(threads), ValueError);
  EXPECT_EQ(cpu::max_threads(), before);
}

using cpu::ThreadCount;

TEST(ThreadCount, WhatOmpNumThreadsAsksFor) {
  for (const char* text : {"", " ", "0", "-1", "-2147483648", "abc", "1.5", "500m", "4x", "4,", ",4", "4,0", "4,abc",
                           "-99999999999999999999"}) {
    EXPECT_EQ(cpu::threads_asked_for(text), std::nullopt) << '"' << text << '"';
  }
  EXPECT_EQ(cpu::threads_asked_for(nullptr), std::nullopt);
  EXPECT_EQ(cpu::threads_asked_for("1"), 1);
  EXPECT_EQ(cpu::threads_asked_for(" 4 "), 4);
  EXPECT_EQ(cpu::threads_asked_for("4,2"), 4);
  EXPECT_EQ(cpu::threads_asked_for("4, 2, 1"), 4);
  EXPECT_EQ(cpu::threads_asked_for("2147483648"), 2147483648);
  EXPECT_EQ(cpu::threads_asked_for("99999999999999999999"), std::numeric_limits<int64_t>::max());
}

TEST(ThreadCount, OfAQuota) {
  for (const auto& [quota, threads] :
       {std::pair{0.01, 1}, {0.5, 1}, {1.0, 1}, {1.2, 1}, {1.5, 2}, {2.0, 2}, {7.9, 8}}) {
    EXPECT_EQ(cpu::threads_for_quota(quota), threads) << quota;
  }
  EXPECT_GT(cpu::threads_for_quota(1e300), 1000);
}

TEST(ThreadCount, WhatDecides) {
  struct Case {
    int cpus;
    std::optional<double> quota;
    const char* variable;
    int threads;
    const char* text;
  };
  const Case cases[] = {
      {2, std::nullopt, nullptr, 2, "2 threads"},
      {1, std::nullopt, "", 1, "1 thread"},
      {2, 1.0, nullptr, 1, "1 thread (CPU quota 1.0 of 2 CPUs)"},
      {2, 1.0, "", 1, "1 thread (CPU quota 1.0 of 2 CPUs)"},
      {2, 1.0, "0", 1, "1 thread (CPU quota 1.0 of 2 CPUs)"},
      {64, 2.5, nullptr, 3, "3 threads (CPU quota 2.5 of 64 CPUs)"},
      {2, 1.5, nullptr, 2, "2 threads"},
      {2, 64.0, nullptr, 2, "2 threads"},
      {2, 1.0, "2", 2, "2 threads (OMP_NUM_THREADS)"},
      {2, std::nullopt, "4,2", 4, "4 threads (OMP_NUM_THREADS)"},
      {2, std::nullopt, "8", 8, "8 threads (OMP_NUM_THREADS)"},
      {2, std::nullopt, "9", 8, "8 threads (OMP_NUM_THREADS = 9, at most 4 times 2 CPUs)"},
      {1, 0.5, "100000", 4, "4 threads (OMP_NUM_THREADS = 100000, at most 4 times 1 CPU)"},
      {2, std::nullopt, "2147483648", 8, "8 threads (OMP_NUM_THREADS = 2147483648, at most 4 times 2 CPUs)"},
  };
  for (const Case& c : cases) {
    const ThreadCount count = cpu::choose_threads(c.cpus, c.quota, c.variable);
    EXPECT_EQ(count.threads, c.threads) << c.text;
    EXPECT_EQ(cpu::describe(count), c.text);
  }
}

TEST(ThreadCount, OfThisProcess) {
  EXPECT_GE(cpu::affinity_cpus(), 1);
  const int before = cpu::max_threads();
  cpu::set_max_threads(before + 1);
  EXPECT_EQ(cpu::describe_threads(),
            std::to_string(cpu::max_threads()) + (cpu::max_threads() == 1 ? " thread" : " threads"));
  cpu::set_max_threads(before);
}

}  // namespace
}  // namespace heed::test
