#include "autograd/core/host_limits.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "autograd/core/check.hpp"
#include "tests/support/fake_system.hpp"

namespace heed::test {
namespace {

const std::string kV2 = "/sys/fs/cgroup", kV1Cpu = "/sys/fs/cgroup/cpu,cpuacct", kV1Memory = "/sys/fs/cgroup/memory";

void write_v1(const FakeSystem& system, const std::string& group, const std::string& quota,
              const std::string& period = "100000") {
  system.write(kV1Cpu + group + "/cpu.cfs_quota_us", quota + "\n");
  system.write(kV1Cpu + group + "/cpu.cfs_period_us", period + "\n");
}

TEST(CpuQuota, OfVersion1) {
  const FakeSystem system;
  system.use_version_1("/batch/job");
  EXPECT_EQ(cpu_quota(system.root()), std::nullopt) << "no files";
  write_v1(system, "/batch/job", "-1");
  EXPECT_EQ(cpu_quota(system.root()), std::nullopt);
  write_v1(system, "/batch/job", "150000");
  EXPECT_EQ(cpu_quota(system.root()), 1.5);
  write_v1(system, "/batch/job", "10000", "20000");
  EXPECT_EQ(cpu_quota(system.root()), 0.5);
}

TEST(CpuQuota, OfVersion2) {
  const FakeSystem system;
  system.use_version_2("/user.slice/run");
  EXPECT_EQ(cpu_quota(system.root()), std::nullopt) << "no files";
  system.write(kV2 + "/user.slice/run/cpu.max", "max 100000\n");
  EXPECT_EQ(cpu_quota(system.root()), std::nullopt);
  system.write(kV2 + "/user.slice/run/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpu_quota(system.root()), 2.5);
}

TEST(CpuQuota, TheSmallestOfAllAncestors) {
  for (const auto& [own, parent, top] : {std::tuple{"max", "300000", "200000"}, {"200000", "max", "400000"}}) {
    const FakeSystem system;
    system.use_version_2("/a/b");
    system.write(kV2 + "/a/b/cpu.max", std::string(own) + " 100000\n");
    system.write(kV2 + "/a/cpu.max", std::string(parent) + " 100000\n");
    system.write(kV2 + "/cpu.max", std::string(top) + " 100000\n");
    EXPECT_EQ(cpu_quota(system.root()), 2.0);
    // A neighbour of a similar name has no effect here.
    system.write(kV2 + "/a/b2/cpu.max", "1000 100000\n");
    EXPECT_EQ(cpu_quota(system.root()), 2.0);
  }
  const FakeSystem system;
  system.use_version_1("/a/b");
  write_v1(system, "/a/b", "300000");
  write_v1(system, "/a", "100000");
  EXPECT_EQ(cpu_quota(system.root()), 1.0);
}

// Without a namespace of its own a container sees the host's path of its group, and at the mount point the group
// itself.
TEST(CpuQuota, InAContainer) {
  const FakeSystem system;
  system.use_version_1("/docker/12ab", "/docker/12ab");
  write_v1(system, "", "100000");
  EXPECT_EQ(cpu_quota(system.root()), 1.0);
  const FakeSystem below;
  below.use_version_1("/docker/12ab/job", "/docker/12ab");
  write_v1(below, "", "300000");
  write_v1(below, "/job", "200000");
  EXPECT_EQ(cpu_quota(below.root()), 2.0);
  const FakeSystem elsewhere;  // a similar name, and a path outside the namespace
  for (const char* path : {"/docker/12abc", "/../other"}) {
    elsewhere.use_version_1(path, "/docker/12ab");
    write_v1(elsewhere, "", "400000");
    EXPECT_EQ(cpu_quota(elsewhere.root()), 4.0) << path;
  }
}

TEST(CpuQuota, OfBothVersionsSideBySide) {
  const FakeSystem system;
  system.write("/proc/self/cgroup", "3:cpu:/old\n0::/new\n");
  system.write("/proc/self/mountinfo",
               "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
               "33 31 0:30 / /sys/fs/cgroup/with\\040blank rw - cgroup2 cgroup2 rw\n");
  system.write("/sys/fs/cgroup/with blank/new/cpu.max", "100000 50000\n");
  EXPECT_EQ(cpu_quota(system.root()), 2.0);
  system.write("/sys/fs/cgroup/cpu/old/cpu.cfs_quota_us", "50000\n");
  system.write("/sys/fs/cgroup/cpu/old/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(system.root()), 0.5);
}

TEST(CpuQuota, NothingWhereTheSystemSaysNothing) {
  const FakeSystem system;
  EXPECT_EQ(cpu_quota(system.root()), std::nullopt);
  EXPECT_TRUE(control_groups("cpu", system.root()).empty());
  system.write("/proc/self/cgroup", "garbage\n:\n0:\n");
  system.write("/proc/self/mountinfo", "garbage - cgroup2\n - \n");
  EXPECT_EQ(cpu_quota(system.root()), std::nullopt);
  system.use_version_2("/a");
  for (const char* text : {"", "\n", "100000\n", "100000 0\n", "-5 100000\n", "x y\n"}) {
    system.write(kV2 + "/a/cpu.max", text);
    EXPECT_EQ(cpu_quota(system.root()), std::nullopt) << text;
  }
}

TEST(ControlGroups, OwnGroupFirst) {
  const FakeSystem system;
  system.use_version_1("/a/b");
  std::vector<std::string> folders;
  for (const ControlGroup& group : control_groups("memory", system.root())) {
    EXPECT_EQ(group.version, 1);
    folders.push_back(group.folder.substr(system.root().size()));
  }
  const std::vector<std::string> expected{"/sys/fs/cgroup/memory/a/b", "/sys/fs/cgroup/memory/a",
                                          "/sys/fs/cgroup/memory"};
  EXPECT_EQ(folders, expected);
}

using Source = MemoryLimit::Source;

constexpr int64_t kMiB = 1 << 20;

// A machine of 1 GiB, of which 800 MiB are available.
void write_machine(const FakeSystem& system, const std::string& swap = "0") {
  system.write("/proc/meminfo",
               "MemTotal:        1048576 kB\nMemFree:          4 kB\nMemAvailable:     819200 kB\n"
               "SwapTotal:        2048 kB\nSwapFree:         " +
                   swap + " kB\n");
}

void write_group(const FakeSystem& system, const std::string& folder, const std::string& limit, int64_t use,
                 const std::string& statistics = "") {
  const bool v1 = folder.starts_with(kV1Memory);
  system.write(folder + (v1 ? "/memory.limit_in_bytes" : "/memory.max"), limit + "\n");
  system.write(folder + (v1 ? "/memory.usage_in_bytes" : "/memory.current"), std::to_string(use) + "\n");
  system.write(folder + "/memory.stat", statistics);
}

void write_process(const FakeSystem& system, const std::string& address_space, const std::string& data) {
  system.write("/proc/self/limits",
               "Limit                     Soft Limit           Hard Limit           Units\n"
               "Max data size             " +
                   data +
                   "            unlimited            bytes\n"
                   "Max address space         " +
                   address_space + "            unlimited   bytes\n");
  system.write("/proc/self/status", "Name:\theed\nVmPeak:\t  999999 kB\nVmSize:\t  102400 kB\nVmData:\t   51200 kB\n");
}

std::string text_of(const FakeSystem& system) {
  const std::optional<MemoryLimit> limit = memory_limit(system.root());
  return limit ? describe(*limit) : "nothing";
}

TEST(MemoryLimit, OfTheMachine) {
  const FakeSystem system;
  EXPECT_EQ(text_of(system), "nothing");
  write_machine(system);
  EXPECT_EQ(text_of(system), "800.0 MiB free of 1.0 GiB (this machine)");
  EXPECT_EQ(memory_limit(system.root())->swap_bytes, 0);
  write_machine(system, "1024");
  EXPECT_EQ(memory_limit(system.root())->swap_bytes, kMiB);
}

TEST(MemoryLimit, OfAContainerOfVersion2) {
  const FakeSystem system;
  write_machine(system, "1024");
  system.use_version_2("/pod/box");
  write_group(system, kV2 + "/pod/box", "max", 100 * kMiB);
  EXPECT_EQ(memory_limit(system.root())->source, Source::machine);
  write_group(system, kV2 + "/pod/box", std::to_string(500 * kMiB), 100 * kMiB);
  EXPECT_EQ(text_of(system), "400.0 MiB free of 500.0 MiB (memory limit of the container)");
  EXPECT_EQ(memory_limit(system.root())->swap_bytes, kMiB);
  write_group(system, kV2 + "/pod/box", std::to_string(500 * kMiB), 100 * kMiB,
              "anon 5\ninactive_file 10485760\nactive_file 20971520\nfile 99\n");
  EXPECT_EQ(memory_limit(system.root())->free_bytes, 430 * kMiB) << "the cache of files is dropped first";
  write_group(system, kV2 + "/pod", std::to_string(300 * kMiB), 200 * kMiB);
  EXPECT_EQ(text_of(system), "100.0 MiB free of 300.0 MiB (memory limit of the container)");
  write_group(system, kV2 + "/pod", std::to_string(300 * kMiB), 301 * kMiB);
  EXPECT_EQ(memory_limit(system.root())->free_bytes, 0);
}

TEST(MemoryLimit, OfAContainerOfVersion1) {
  const FakeSystem system;
  write_machine(system);
  system.use_version_1("/docker/12ab", "/docker/12ab");
  write_group(system, kV1Memory, "9223372036854771712", 100 * kMiB);
  EXPECT_EQ(memory_limit(system.root())->source, Source::machine);
  write_group(system, kV1Memory, std::to_string(150 * kMiB), 100 * kMiB,
              "inactive_file 1\ntotal_inactive_file 10485760\ntotal_active_file 1048576\n");
  EXPECT_EQ(text_of(system), "61.0 MiB free of 150.0 MiB (memory limit of the container)");
}

TEST(MemoryLimit, OfTheProcess) {
  const FakeSystem system;
  write_machine(system);
  write_process(system, "unlimited", "unlimited");
  EXPECT_EQ(memory_limit(system.root())->source, Source::machine);
  write_process(system, std::to_string(300 * kMiB), "unlimited");
  EXPECT_EQ(text_of(system), "200.0 MiB free of 300.0 MiB (ulimit -v)");
  EXPECT_EQ(memory_limit(system.root())->swap_bytes, 0) << "swapped memory is address space too";
  write_process(system, std::to_string(300 * kMiB), std::to_string(60 * kMiB));
  EXPECT_EQ(text_of(system), "10.0 MiB free of 60.0 MiB (ulimit -d)");
  write_process(system, std::to_string(50 * kMiB), "unlimited");
  EXPECT_EQ(memory_limit(system.root())->free_bytes, 0);
}

TEST(MemoryLimit, Units) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(20615855603712), "18.8 TiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<int64_t>::max()), "8.0 EiB");
}

TEST(MemoryLimit, MoreThanThereIsIsAnErrorInWords) {
  ASSERT_TRUE(memory_limit().has_value());
  const MemoryNeed need{.bytes = int64_t{1} << 50, .what = "the text", .advice = "take less"};
  bool ran = false;
  try {
    with_memory(need, [&] { ran = true; });
    ADD_FAILURE() << "this machine has 1 PiB";
  } catch (const MemoryError& error) {
    const std::string text = error.what();
    EXPECT_TRUE(text.starts_with("out of memory: the text needs 1.0 PiB, ")) << text;
    EXPECT_NE(text.find(" free of "), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("; take less")) << text;
  }
  EXPECT_FALSE(ran);
  EXPECT_EQ(with_memory({.bytes = 1, .what = "a byte", .advice = ""}, [] { return 7; }), 7);
}

TEST(MemoryLimit, ARefusalOfTheSystemIsTheSameError) {
  try {
    with_memory({.bytes = 0, .what = "the text", .advice = ""}, [] { throw std::bad_alloc(); });
    ADD_FAILURE() << "no error";
  } catch (const MemoryError& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("out of memory: the text needs more than there is, "));
  }
}

}  // namespace
}  // namespace heed::test
