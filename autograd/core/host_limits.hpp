// What the system lets this process use: memory and CPUs; and out-of-memory errors that name the limit.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace heed {

// A Linux control group (cgroup): how containers and batch systems limit CPUs and memory. It limits its own processes
// and those of its descendants, so every ancestor counts. Versions 1 and 2 are supported, also on a system that has
// both. Sources: cgroups(7), proc(5), and the kernel's admin-guide/cgroup-v1 and cgroup-v2.
struct ControlGroup {
  int version = 2;     // 1 or 2
  std::string folder;  // "/sys/fs/cgroup/cpu/docker/12ab"
};

// The cgroups that limit this process through a controller ("cpu" or "memory"): its own, then its ancestors. In a
// container the list ends at the container's cgroup, because only that subtree is mounted. Empty if the system has no
// cgroups. `root` is prefixed to every path: empty for the real system, the folder of a fake system in tests.
std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& root = "");

// The number of CPUs that the cgroups allow: their smallest quota / period; nullopt if none has a limit.
std::optional<double> cpu_quota(const std::string& root = "");

struct MemoryLimit {
  enum class Source { machine, container, address_space, data_segment };
  Source source = Source::machine;
  int64_t free_bytes = 0;   // that this process may still allocate
  int64_t total_bytes = 0;  // of the machine, or the limit
  int64_t swap_bytes = 0;   // available in addition, by moving memory to disk
};

// The strictest of these limits, i.e. the one with the least free memory:
//   machine        MemAvailable of /proc/meminfo, plus SwapFree
//   container      limit - usage of the memory cgroups of this process and of all their ancestors, plus SwapFree; the
//                  page cache of files counts as free, because the kernel drops it first
//   address_space  ulimit -v minus the usage of this process
//   data_segment   ulimit -d, likewise
// nullopt if the system reports none of them. `root`: see control_groups().
std::optional<MemoryLimit> memory_limit(const std::string& root = "");

// "1.2 GiB free of 1.5 GiB (ulimit -v)"
std::string describe(const MemoryLimit& limit);

// "1.5 MiB"
std::string human_bytes(int64_t bytes);

// A planned allocation, for the error message.
struct MemoryNeed {
  int64_t bytes = 0;  // lower bound; 0: unknown
  std::string what;   // "the tokens of \"/data/text.txt\""
  std::string advice;
};

// "out of memory: WHAT needs 309.0 MiB, 120.1 MiB free of 500.0 MiB (memory limit of the container); ADVICE"
std::string out_of_memory(const MemoryNeed& need);

// Returns the cached blocks of the CPU memory pool to the system if fewer than `bytes` are free. Returns false if fewer
// are free even then.
bool make_room(int64_t bytes);

// Throws MemoryError with out_of_memory() if need.bytes are not available. If no limit is known, any number is.
void require_memory(const MemoryNeed& need);

// Runs f, which allocates the memory, after require_memory(). Throws the same error if f throws std::bad_alloc.
template <class F>
auto with_memory(const MemoryNeed& need, F f);

[[noreturn]] void throw_out_of_memory(const MemoryNeed& need);

template <class F>
auto with_memory(const MemoryNeed& need, F f) {
  require_memory(need);
  try {
    return f();
  } catch (const std::bad_alloc&) {
    throw_out_of_memory(need);
  }
}

}  // namespace heed
