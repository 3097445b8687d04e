#include "autograd/cpu/thread_count.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "autograd/cpu/parallel.hpp"

namespace heed::test {
namespace {

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
