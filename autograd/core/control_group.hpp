// The Linux control groups (cgroups) that this process is in: how containers and batch systems limit CPUs and memory.
//
// A group limits the processes in it and in the groups below it, so every ancestor counts. Versions 1 and 2 are read,
// also where a system has both. Sources: cgroups(7), proc(5), and the kernel's admin-guide/cgroup-v1 and cgroup-v2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heed {

struct ControlGroup {
  int version = 2;     // 1 or 2
  std::string folder;  // "/sys/fs/cgroup/cpu/docker/12ab"
};

// The groups that limit this process through a controller ("cpu" or "memory"): its own, then its ancestors. Inside a
// container these are the container's group and those below it, which is all that is mounted there. Empty where the
// system has no control groups. `root` is put before every path: empty for the system itself, a folder with a made-up
// system in tests.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root = "");

// The whole text of a file; empty where it is missing or cannot be read.
std::string read_system_file(const std::string& path);

// The number in a group's file, such as memory.max; nothing for "max", or where the file is missing.
std::optional<int64_t> read_number(const ControlGroup& group, const std::string& file);

// The number after a word at the beginning of a line: "inactive_file 4096", "MemAvailable:   1024 kB".
std::optional<int64_t> number_after(const std::string& text, const std::string& word);

// The CPUs that the groups grant: the smallest quota / period of all; nothing where none is limited.
std::optional<double> cpu_quota(const std::string& root = "");

}  // namespace heed
