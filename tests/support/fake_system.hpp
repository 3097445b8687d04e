// A folder with the files of a made-up system below it (/proc/self/cgroup, /sys/fs/cgroup/…), for what reads limits.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace heed::test {

class FakeSystem {
 public:
  FakeSystem() {
    std::string name = (std::filesystem::temp_directory_path() / "heed-test-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~FakeSystem() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  FakeSystem(const FakeSystem&) = delete;
  FakeSystem& operator=(const FakeSystem&) = delete;

  const std::string& root() const { return root_; }

  // path: absolute in the made-up system.
  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  // The group `path` of version 2, which is mounted whole.
  void use_version_2(const std::string& path) const {
    write("/proc/self/cgroup", "0::" + path + "\n");
    write("/proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  // The group `path` of version 1. mounted: the group that the mount points show, "/" for all.
  void use_version_1(const std::string& path, const std::string& mounted = "/") const {
    write("/proc/self/cgroup", "5:cpu,cpuacct:" + path + "\n4:memory:" + path + "\n1:name=systemd:/x\n0::/\n");
    write("/proc/self/mountinfo", "22 27 0:21 / /proc rw,relatime - proc proc rw\n32 31 0:29 " + mounted +
                                      " /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n33 31 "
                                      "0:30 " +
                                      mounted + " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }

 private:
  std::string root_;
};

}  // namespace heed::test
