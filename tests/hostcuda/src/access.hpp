// The checks of memory. Two implementations: access_plain.cpp sees what the engine itself reads and writes for a thread
// (atomics, ldmatrix, cp.async) and checks its bounds; access_check.cpp sees every access of a kernel and knows for
// each byte who wrote and who read it last.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/engine.hpp"

namespace hostcuda {

extern const bool kSeesAllAccesses;

// begin_copy: cp.async, which fills the memory later; end_copy: when it does.
enum class Access : uint8_t { read, write, atomic, begin_copy, end_copy };

// Numbers of intervals that are no interval of a kernel.
constexpr uint32_t kNoMemory = 0, kNeverWritten = 1, kHost = 2, kFirstInterval = 3;

// Called where another thread of the block goes on, and where a block begins.
void enter_thread(const Multiprocessor& processor, const Thread& thread);
void enter_block(const Multiprocessor& processor);

// Reports a wrong access; gives the block up where it leaves its memory. place: the return address of the access.
void check_access(Thread& thread, const void* address, size_t bytes, Access kind, const void* place);
uint64_t take_access_count();

// What the checks must know of device memory. The range lies in one allocation.
void memory_allocated(const void* begin, size_t bytes);
void memory_freed(const void* page, size_t bytes);             // all pages of an allocation
void memory_written(const void* begin, size_t bytes);          // by the host
void memory_copied(void* to, const void* from, size_t bytes);  // within the device
const void* never_written(const void* begin, size_t bytes);    // the first such byte, null if none

}  // namespace hostcuda
