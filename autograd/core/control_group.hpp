// The Linux control groups (cgroups) of this process: how containers and batch systems limit CPUs and memory.
//
// A cgroup limits its own processes and those of its descendants, so every ancestor counts. Versions 1 and 2 are
// supported, also on a system that has both. Sources: cgroups(7), proc(5), and the kernel's admin-guide/cgroup-v1 and
// cgroup-v2.
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

// The cgroups that limit this process through a controller ("cpu" or "memory"): its own, then its ancestors. In a
// container the list ends at the container's cgroup, because only that subtree is mounted. Empty if the system has no
// cgroups. `root` is prefixed to every path: empty for the real system, the folder of a fake system in tests.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root = "");

// The whole text of a file; empty if it is missing or cannot be read.
std::string read_system_file(const std::string& path);

// The number in a file of a cgroup, such as memory.max; nullopt for "max" or a missing file.
std::optional<int64_t> read_number(const ControlGroup& group, const std::string& file);

// The number after a word at the start of a line, "inactive_file 4096" or "MemAvailable:   1024 kB"; nullopt if there
// is none.
std::optional<int64_t> number_after(const std::string& text, const std::string& word);

// The number of CPUs that the cgroups allow: their smallest quota / period; nullopt if none has a limit.
std::optional<double> cpu_quota(const std::string& root = "");

}  // namespace heed
