// CUDA emulation: what a test may ask of the engine. Only tests include this.
//
// Environment, read when the process starts:
//   HOSTCUDA_SCHEDULE=n             set_schedule(n)
//   HOSTCUDA_STREAMS=lazy|random    set_streams
//   HOSTCUDA_MEMORY_MIB=n           device memory (default 4096)
//   HOSTCUDA_DEVICES=0              there is no device
//   HOSTCUDA_CAPABILITY=80|90       of the device (default 90), with its limit of shared memory
//   HOSTCUDA_NCCL_SECONDS=n         how long a collective waits for another rank (default 120)
// A process that ends with reports that nobody took, or with work on a stream that nobody waited for, exits with 99.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hostcuda {

// kind: bounds, uninit, race, barrier, warp, async, host, stream, trap, nccl
struct Report {
  std::string kind, text;
};
// The faults since the last call. Lets all streams finish first, and clears the error that a fault left.
std::vector<Report> take_reports();
extern bool quiet;  // keeps reports off stderr

// In which order the ready threads of a block and the blocks of a grid run: 0 ascending, 1 descending, n > 1 shuffled
// by a generator with this seed.
void set_schedule(uint64_t seed);

// When the work on a stream runs: eager inside the call; lazy when something waits for it, and no more than that needs;
// random by a coin at each call, the nodes of a graph in any order that their dependencies allow.
enum class Streams { eager, lazy, random };
void set_streams(Streams mode, uint64_t seed = 1);

extern bool forbid_default_stream;  // reports work that is given to the null stream

extern bool without_gelu_algorithms;  // cuBLASLt knows none for products that end in GELU
extern bool epilogues_are_invalid;    // cuBLASLt rejects bias and GELU epilogues with CUBLAS_STATUS_INVALID_VALUE

// Products of cuBLASLt since the last call. unaligned: those with a column of A, B, C or D that does not begin at a
// multiple of 16 bytes.
struct Products {
  uint64_t all, unaligned;
};
Products take_products();

// One line for each thing that is still there: memory, streams with work that never ran, events, graphs, handles.
std::vector<std::string> leaks();

// The variant check does, the plain one does not.
bool sees_all_accesses();

struct Stats {
  uint64_t launches, blocks, switches, accesses;  // accesses: only the check build sees them
};
Stats take_stats();

}  // namespace hostcuda
