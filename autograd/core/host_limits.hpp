// Memory that the system lets this process allocate, and out-of-memory errors that name the limit.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <string>

namespace heed {

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
