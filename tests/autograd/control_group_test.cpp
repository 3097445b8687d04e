#include "autograd/core/control_group.hpp"

#include <gtest/gtest.h>

#include "tests/support/fake_system.hpp"

namespace heed::test {
namespace {

const std::string kV1 = "/sys/fs/cgroup/cpu,cpuacct", kV2 = "/sys/fs/cgroup";

void write_v1(const FakeSystem& system, const std::string& group, const std::string& quota,
              const std::string& period = "100000") {
  system.write(kV1 + group + "/cpu.cfs_quota_us", quota + "\n");
  system.write(kV1 + group + "/cpu.cfs_period_us", period + "\n");
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
    // A neighbour of a similar name limits nobody here.
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

}  // namespace
}  // namespace heed::test
