// Memory that the system lets this process have, and errors that say what is missing.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <string>

namespace heed {

struct MemoryLimit {
  enum class Source { machine, container, address_space, data_segment };
  Source source = Source::machine;
  int64_t free_bytes = 0;   // that this process may still take
  int64_t total_bytes = 0;  // of the machine, or the limit
  int64_t swap_bytes = 0;   // that may come on top, by moving memory to disk
};

// The strictest of these, so the one with the least free memory:
//   machine        MemAvailable of /proc/meminfo, and SwapFree on top
//   container      limit - use of the memory control groups of this process and all their ancestors, where the page
//                  cache of files counts as free, since the kernel drops it first; SwapFree on top
//   address_space  ulimit -v, less what this process has
//   data_segment   ulimit -d, likewise
// Nothing where the system says nothing. `root`: see control_groups().
std::optional<MemoryLimit> memory_limit(const std::string& root = "");

// "1.2 GiB free of 1.5 GiB (ulimit -v)"
std::string describe(const MemoryLimit& limit);

// "1.5 MiB"
std::string human_bytes(int64_t bytes);

// What is going to take memory, for the error text.
struct MemoryNeed {
  int64_t bytes = 0;  // at least; 0: not known
  std::string what;   // "the tokens of \"/data/text.txt\""
  std::string advice;
};

// "out of memory: WHAT needs 309.0 MiB, 120.1 MiB free of 500.0 MiB (memory limit of the container); ADVICE"
std::string out_of_memory(const MemoryNeed& need);

// Gives the blocks that the CPU's memory pool keeps for reuse back to the system where fewer than `bytes` are free.
// False where so many are not free even then.
bool make_room(int64_t bytes);

// Throws MemoryError with out_of_memory() where need.bytes cannot be had. Where nothing is known of limits all can be.
void require_memory(const MemoryNeed& need);

// Runs f, which takes the memory: require_memory(), and the same error where f finds none (std::bad_alloc).
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
